"""The credit routes of a real trainer service, on records as a trainer leaves them, read by the job client."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from gagpo.cli import app
from gagpo.client import AsyncClient, Client, JobError
from shared.buffer import JobStore
from shared.credit_record import CreditedGroup, CreditRecord, read_credit_record, write_credit_record
from shared.recipe import load_recipe
from shared.run_layout import RunFiles
from shared.schemas.job import JobState
from tests.credit_records import make_credit, make_record
from tests.processes import start_redis, start_service
from tests.tokenizers import write_tokenizer
from tests.training import write_recipe
from tests.trajectories import make_group

JOB, BARE = "tuesday", "wednesday"
WORDS = " ".join(f"w{number}" for number in range(1000))
KEPT = [3, 4, 6]
WIDE = 6
"""The training step of a group of 8 × 50 steps."""
OPENING_S = 0.3


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("credit") / "runs"


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[str]:
    """A trainer service with a job that has kept its credit, and one that has not; both are over."""
    folder = runs.parent
    write_tokenizer(folder / "model", WORDS)
    recipe = load_recipe(write_recipe(folder))
    files = RunFiles(runs / JOB)
    for step in KEPT:
        wide = step == WIDE
        record = make_record(step, groups=16, episodes=8, steps=50, prompt=900) if wide else make_record(step)
        write_credit_record(files.credit_record(step), record)
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        store = JobStore(redis_url)
        for job in (JOB, BARE):
            store.add(job, recipe)
            store.transition(job, JobState.CANCELLED, "over")
        store.close()
        variables = {"REDIS_URL": redis_url, "GAGPO_TRAINER_RUNS": str(runs)}
        yield running.enter_context(start_service("services.trainer.server", variables)).url


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server) as opened:
        yield opened


def record_of(runs: Path, step: int) -> CreditRecord:
    return read_credit_record(RunFiles(runs / JOB).credit_record(step))


def test_steps_and_groups_are_listed(client: Client, runs: Path) -> None:
    assert client.credit_steps(JOB) == KEPT
    assert client.credit_steps(BARE) == []
    shown, record = client.credit(JOB, 3), record_of(runs, 3)
    assert (shown.step, shown.version, shown.algorithm) == (3, 4, "gagpo")
    assert [group.index for group in shown.groups] == [0, 1]
    for summary, one in zip(shown.groups, record.groups, strict=True):
        group, credit = one.group, one.credit
        assert (summary.environment, summary.task_id, summary.task_type) == ("maze", group.task_id, "walk")
        assert (summary.episodes, summary.won, summary.steps) == (3, 3, 12)
        assert (summary.trained_steps, summary.clipped_steps) == (11, int(credit.clipped.sum()))
        assert summary.largest_advantage == np.abs(credit.advantages).max()
        assert summary.singleton_share == 0.0, "the three episodes walk through the same rooms"


def test_a_groups_cells_are_the_records_numbers(client: Client, runs: Path) -> None:
    shown, one = client.credit_group(JOB, 4, 1), record_of(runs, 4).groups[1]
    cells = [cell for row in shown.rows for cell in row.cells]
    steps = [step for episode in one.group.episodes for step in episode.steps]
    numbers = one.credit
    assert [cell.reward for cell in cells] == numbers.rewards.tolist()
    assert [cell.step_return for cell in cells] == numbers.returns.tolist()
    assert [cell.value for cell in cells] == numbers.values.tolist()
    assert [cell.delta for cell in cells] == numbers.deltas.tolist()
    assert [cell.raw_advantage for cell in cells] == numbers.raw.tolist()
    assert [cell.advantage for cell in cells] == numbers.advantages.tolist()
    assert [cell.ratio for cell in cells] == [None if np.isnan(ratio) else ratio for ratio in numbers.ratios.tolist()]
    assert cells[-1].ratio is None
    assert [cell.clipped for cell in cells] == numbers.clipped.tolist()
    assert [cell.siblings for cell in cells] == [2] * 12
    assert [(cell.action, cell.observation) for cell in cells] == [(step.action, step.observation) for step in steps]
    assert [row.total_reward for row in shown.rows] == pytest.approx(numbers.rewards.reshape(3, 4).sum(1).tolist())
    assert [(row.won, row.end, row.optimal_steps) for row in shown.rows] == [(True, "terminated", 4)] * 3


def test_a_step_tells_its_prompt_and_the_steps_that_shared_its_state(client: Client, runs: Path) -> None:
    shown, one = client.credit_cell(JOB, 4, 1, 2, 3), record_of(runs, 4).groups[1]
    step, credit = one.group.episodes[2].steps[3], one.credit
    assert shown.prompt is not None
    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    words = [special[token] if token < 4 else f"w{token - 4}" for token in step.prompt_token_ids.tolist()]
    assert shown.prompt.split() == words
    assert (shown.prompt_tokens, shown.action_tokens, shown.policy_versions) == (20, 5, [3])
    assert (shown.state_key, shown.cell.action) == ("room-3", "go to door 3")
    assert shown.cell.advantage == credit.advantages[11]
    expected = sorted(((credit.returns[4 * episode + 3], episode) for episode in (0, 1)), reverse=True)
    assert [(sibling.step_return, sibling.episode) for sibling in shown.siblings] == expected
    assert all((sibling.group, sibling.step, sibling.won) == (1, 3, True) for sibling in shown.siblings)
    assert [sibling.advantage for sibling in shown.siblings] == [
        credit.advantages[4 * sibling.episode + 3] for sibling in shown.siblings
    ]


async def test_the_asyncio_client_reads_the_same(server: str, client: Client) -> None:
    async with AsyncClient(server) as other:
        assert await other.credit_steps(JOB) == KEPT
        assert await other.credit(JOB, 3) == client.credit(JOB, 3)
        assert await other.credit_group(JOB, 3, 1) == client.credit_group(JOB, 3, 1)
        assert await other.credit_cell(JOB, 3, 1, 0, 2) == client.credit_cell(JOB, 3, 1, 0, 2)


def test_siblings_of_a_pool_over_the_batch_are_in_other_groups(client: Client, runs: Path) -> None:
    groups = [make_group(5, index, episodes=1, steps=2) for index in range(2)]
    made = []
    for group in groups:
        credit = make_credit(group)
        credit.states[:] = [7, 8]
        made.append(CreditedGroup(group, credit))
    file = RunFiles(runs / JOB).credit_record(5)
    write_credit_record(file, CreditRecord(5, 6, "gagpo", tuple(made)))
    try:
        shown = client.credit_cell(JOB, 5, 0, 0, 1)
        assert [(sibling.group, sibling.episode, sibling.step) for sibling in shown.siblings] == [(1, 0, 1)]
        assert client.credit(JOB, 5).groups[0].singleton_share == 0.0
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        (f"{JOB}/credit/9", "unknown-credit-step", "it is kept of 3–4, 6."),
        (f"{JOB}/credit/-1", "unknown-credit-step", "3–4, 6"),
        (f"{BARE}/credit/0", "unknown-credit-step", "none is kept (yet)."),
        (f"{JOB}/credit/3/groups/2", "unknown-credit-group", "has the groups 0–1."),
        (f"{JOB}/credit/3/groups/1/episodes/3/steps/0", "unknown-credit-episode", "it has the episodes 0–2."),
        (f"{JOB}/credit/3/groups/1/episodes/0/steps/4", "unknown-credit-turn", "it has the steps 0–3."),
        ("nobody/credit", "unknown-job", "there is no such job"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(server: str, path: str, kind: str, words: str) -> None:
    answer = httpx.get(f"{server}/v1/jobs/{path}", timeout=30)
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (404, f"/problems/{kind}")
    assert words in problem["detail"]


def test_a_record_that_comes_anew_is_read_anew_and_a_damaged_one_says_so(client: Client, runs: Path) -> None:
    file = RunFiles(runs / JOB).credit_record(5)
    write_credit_record(file, make_record(5, groups=1))
    try:
        assert len(client.credit(JOB, 5).groups) == 1
        write_credit_record(file, make_record(5, groups=3))
        assert len(client.credit(JOB, 5).groups) == 3
        file.write_bytes(file.read_bytes()[:-9])
        with pytest.raises(JobError, match=r"step-000005\.msgpack\.zst: damaged credit record"):
            client.credit(JOB, 5)
    finally:
        file.unlink()


def test_without_a_tokenizer_a_step_is_shown_without_its_prompt(client: Client, runs: Path) -> None:
    file = runs.parent / "model" / "tokenizer.json"
    kept = file.rename(file.with_suffix(".away"))
    try:
        shown = client.credit_cell(JOB, 4, 0, 0, 0)
        assert (shown.prompt, shown.answer, shown.prompt_tokens) == (None, None, 20)
    finally:
        kept.rename(file)


def test_opening_a_large_group_is_quick(server: str) -> None:
    url = f"{server}/v1/jobs/{JOB}/credit/{WIDE}/groups"
    with httpx.Client(timeout=30) as http:
        http.get(f"{server}/v1/jobs/{JOB}/credit").raise_for_status()
        taken = []
        for index in range(5):  # none of which was opened before
            start = time.perf_counter()
            answer = http.get(f"{url}/{index}").raise_for_status()
            taken.append(time.perf_counter() - start)
    assert sum(len(row["cells"]) for row in answer.json()["rows"]) == 400
    assert min(taken) < OPENING_S, taken


def gagpo(*arguments: str, server: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["job", *arguments], env={"GAGPO_SERVER": server, "COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


def test_the_command_line_shows_groups_and_steps(server: str, runs: Path) -> None:
    code, shown, _ = gagpo("credit", JOB, "--step", "3", server=server)
    assert code == 0
    heading, _, first, _ = shown.splitlines()
    assert heading == "training step 3, gagpo; kept are 3 to 6"
    assert first.split()[:5] == ["0", "maze", "walk", "maze-0-0", "3/3"]
    code, shown, _ = gagpo("credit", JOB, "--step", "4", "--group", "1", server=server)
    assert code == 0
    credit = record_of(runs, 4).groups[1].credit
    lines = shown.splitlines()
    assert len(lines) == 2 + 3 * (1 + 4)
    assert lines[2].startswith("episode 0: won in 4 steps, 4 would do")
    assert f"{credit.advantages[0]:.2f}" in lines[3].split()
    assert lines[-1].split()[-2:] == ["–", "2"], "not trained on, and two others were here"
    code, shown, _ = gagpo("credit", JOB, "--json", server=server)
    assert json.loads(shown)["step"] == WIDE
    code, _, said = gagpo("credit", BARE, server=server)
    assert code == 1
    assert "tracking.credit_steps" in said
