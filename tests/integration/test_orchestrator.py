"""The orchestrator as a process, between a real env server, a real Redis and a policy that answers at random.

The tests play the trainer.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gagpo import redis_server
from shared.buffer import BufferTimeoutError, EventReader, GroupReader, JobChannel, JobState
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import load_recipe
from shared.schemas.evaluation import EvaluationReport
from shared.trajectory import EpisodeEnd, Group
from tests.processes import REPOSITORY, free_port, start_env_server, start_redis, start_service
from tests.tokenizers import write_tokenizer

WORDS = "north south take coin You walk take coin Nothing happens wake up in a maze > [ ]"
RECIPE = """
name = "maze"
seed = 7
[model]
path = "model"
[[environments]]
name = "maze"
eval_split = "valid"
max_steps = 12
state_key = "simulator"
[prompt]
template = "compact"
max_tokens = 200
[sampling]
max_tokens = 4
[rollout]
groups_per_step = 3
group_size = 4
concurrency = 6
episode_retries = 2
max_staleness = {staleness}
[training]
steps = 3
minibatches = 1
"""


@dataclass(slots=True)
class Stack:
    """The servers around an orchestrator, and the trainer's ends of the buffer."""

    folder: Path
    job: str
    redis_url: str
    env_urls: str
    policy_url: str
    channel: JobChannel

    @property
    def recipe(self) -> Path:
        return self.folder / "recipe.toml"

    def write_recipe(self, staleness: int = 0) -> None:
        self.recipe.write_text(RECIPE.format(staleness=staleness))

    def control(self, **settings: int | bool) -> None:
        httpx.post(self.policy_url + "/control", content=json.dumps(settings)).raise_for_status()

    def publish(self, version: int) -> None:
        """As the trainer does: first the weights, then their version."""
        self.control(version=version)
        self.channel.set_policy_version(version)

    def requests(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = httpx.get(self.policy_url + "/requests").json()
        return found


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The servers, started once; `stack` gives each test a job of its own."""
    folder = tmp_path_factory.mktemp("servers")
    model = write_tokenizer(folder / "model", WORDS)
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        env = running.enter_context(start_env_server(REDIS_URL=redis_url))
        policy = running.enter_context(_start_policy(model))
        yield _make_stack(folder, "none", redis_url, env.url, policy)


@pytest.fixture
def stack(servers: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    write_tokenizer(tmp_path / "model", WORDS)
    job = f"job-{abs(hash(request.node.name))}"
    made = _make_stack(tmp_path, job, servers.redis_url, servers.env_urls, servers.policy_url)
    made.control(reset=True)
    made.channel.set_state(JobState.RUNNING)
    yield made
    made.channel.close()


def _make_stack(folder: Path, job: str, redis_url: str, env_urls: str, policy_url: str) -> Stack:
    made = Stack(folder, job, redis_url, env_urls, policy_url, JobChannel(redis_url, job))
    made.write_recipe()
    return made


@contextmanager
def _start_policy(model: Path, delay_s: float = 0.0) -> Iterator[str]:
    tokenizer = PolicyTokenizer(model)
    answers = [[*tokenizer.encode(action), 2] for action in ("north", "north", "south", "take coin", "coin")]
    variables = {"ANSWERS": json.dumps(answers), "DELAY_S": str(delay_s)}
    with start_service("tests.random_policy_server", variables) as service:
        yield service.url


@contextmanager
def _orchestrator(stack: Stack) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A running orchestrator and its URL."""
    port = free_port()
    command = [sys.executable, "-m", "services.orchestrator", "--job", stack.job, "--recipe", str(stack.recipe)]
    command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--redis-url", stack.redis_url]
    with (stack.folder / "orchestrator.log").open("ab") as log:
        process = subprocess.Popen([*command, "--port", str(port)], cwd=REPOSITORY, stdout=log, stderr=log)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def _read(stack: Stack, step: int, count: int = 3) -> list[Group]:
    with GroupReader(stack.redis_url, stack.job) as reader:
        return reader.read_step(step, count, 40)


def test_a_synchronous_job_from_the_first_group_to_the_end(stack: Stack) -> None:
    before = _open_sessions(stack)
    stack.publish(0)
    with _orchestrator(stack) as (process, url), GroupReader(stack.redis_url, stack.job) as reader:
        for step in range(3):
            groups = reader.read_step(step, 3, 40)
            _check_groups(stack, groups, step)
            if step < 2:
                with pytest.raises(BufferTimeoutError):
                    reader.read_step(step + 1, 1, 0.3)
            else:
                _check_reports(stack, url)
            reader.release(step + 1)
            stack.publish(step + 1)
        stack.channel.set_state(JobState.COMPLETED)
        assert process.wait(15) == 0
    assert _open_sessions(stack) == before


def _open_sessions(stack: Stack) -> int:
    text = httpx.get(stack.env_urls + "/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("gagpo_env_sessions ")]
    return int(float(line.split()[1]))


def _check_groups(stack: Stack, groups: list[Group], step: int) -> None:
    """Every group is whole, and each of its steps is what the servers saw and said."""
    recipe = load_recipe(stack.recipe)
    builder = PromptBuilder(recipe.prompt, PolicyTokenizer(recipe.model.path))
    assert [group.index for group in groups] == [0, 1, 2]
    assert len({group.task_id for group in groups}) == 3
    for group in groups:
        assert (group.step, group.environment, group.task_type, len(group.episodes)) == (step, "maze", "maze", 4)
        for episode in group.episodes:
            assert episode.steps[0].observation == group.episodes[0].steps[0].observation
            assert episode.won == (episode.end is EpisodeEnd.TERMINATED)
            assert episode.score == float(episode.won)
            assert episode.end is EpisodeEnd.TERMINATED or len(episode.steps) == 12
            prompts = builder.start(episode.steps[0].observation, {})
            for one in episode.steps:
                admissible = ["north", "south", *(["take coin"] if "coin lies" in one.observation else [])]
                assert one.prompt_token_ids.tolist() == prompts.render(one.observation, admissible)
                assert one.action == builder.action(one.token_ids.tolist())
                assert len(one.logprobs) == len(one.token_ids)
                assert set(one.policy_versions.tolist()) == {step}
                assert one.valid_action == (one.action in {"north", "south"} or one.action in admissible)
                assert one.state_key.count("|") == 1
                prompts.record(one.observation, one.action)


def _check_reports(stack: Stack, url: str) -> None:
    """The events, the status and the metrics agree with what was made."""
    deadline = time.monotonic() + 10
    kinds: list[str] = []
    while kinds.count("rollout") < 3 and time.monotonic() < deadline:
        events = EventReader(stack.redis_url, stack.job).read()
        kinds = [event.kind for event in events]
        time.sleep(0.05)
    assert kinds.count("group") == 9
    last = [event.payload for event in events if event.kind == "rollout"][-1]
    seeds = [request["sampling"]["seed"] for request in stack.requests()]  # type: ignore[index]
    assert len(set(seeds)) == len(seeds)
    assert (last["step"], last["groups"], last["episodes"], last["dropped"], last["max_staleness"]) == (2, 3, 12, 0, 0)
    status = httpx.get(url + "/v1/status").json()
    assert (status["groups_added"], status["episodes"], status["phase"]) == (9, 36, "waiting")
    assert status["steps"] == len(stack.requests())
    assert "gagpo_orchestrator_groups_added_total 9.0" in httpx.get(url + "/metrics").text
    assert httpx.get(url + "/readyz").status_code == 200


def test_the_same_seed_gives_the_same_tasks_also_after_a_crash(stack: Stack) -> None:
    stack.publish(0)
    with _orchestrator(stack) as (process, _):
        before = [group.task_id for group in _read(stack, 0)]
        stack.publish(1)
        _read(stack, 1, 1)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    with _orchestrator(stack):
        again = _read(stack, 0), _read(stack, 1)
    assert [group.task_id for group in again[0]] == before
    tasks = [group.task_id for step in again for group in step]
    assert len(set(tasks)) == 6
    places = [
        (event.payload["step"], event.payload["index"])
        for event in EventReader(stack.redis_url, stack.job).read()
        if event.kind == "group"
    ]
    assert len(places) == len(set(places))


def test_with_staleness_the_next_step_is_made_with_the_version_before(stack: Stack) -> None:
    stack.write_recipe(staleness=1)
    stack.publish(0)
    with _orchestrator(stack), GroupReader(stack.redis_url, stack.job) as reader:
        ahead = reader.read_step(0, 3, 40) + reader.read_step(1, 3, 40)
        assert {int(step.policy_versions.max()) for group in ahead for e in group.episodes for step in e.steps} == {0}
        with pytest.raises(BufferTimeoutError):
            reader.read_step(2, 1, 0.5)


def test_a_failed_episode_is_played_again_and_the_group_stays_whole(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=5, status=422)
    with _orchestrator(stack) as (_, url):
        assert [len(group.episodes) for group in _read(stack, 0)] == [4, 4, 4]
        status = httpx.get(url + "/v1/status").json()
    assert (status["episodes_retried"], status["groups_dropped"]) == (5, 0)


def test_a_server_that_is_busy_or_away_for_a_moment_costs_no_episode(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=9, status=503)
    with _orchestrator(stack) as (_, url):
        assert len(_read(stack, 0)) == 3
        assert httpx.get(url + "/v1/status").json()["episodes_retried"] == 0


def test_a_group_that_cannot_be_finished_is_dropped_and_said_to_be(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=-1, status=422)
    with _orchestrator(stack) as (_, url), GroupReader(stack.redis_url, stack.job) as reader:
        assert reader.read_step(0, 3, 40) == []
        dropped = reader.dropped(0)
        assert sorted(dropped) == [0, 1, 2]
        assert "refused for the test" in dropped[0]
        stack.control(fail=0)
        stack.publish(1)
        assert len(reader.read_step(1, 3, 40)) == 3
        assert httpx.get(url + "/v1/status").json()["groups_dropped"] == 3


def test_episodes_go_on_when_one_of_two_env_servers_dies(tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model", WORDS)
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        first = running.enter_context(start_env_server(REDIS_URL=redis_url))
        second = running.enter_context(start_env_server(REDIS_URL=redis_url))
        policy = running.enter_context(_start_policy(model, delay_s=0.1))
        stack = _make_stack(tmp_path, "two-servers", redis_url, f"{first.url},{second.url}", policy)
        stack.publish(0)
        with _orchestrator(stack) as (_, url):
            while len(stack.requests()) < 20:
                time.sleep(0.05)
            second.kill()
            assert len(_read(stack, 0)) == 3
            assert httpx.get(url + "/v1/status").json()["episodes_retried"] == 0
        stack.channel.close()


def test_a_crash_of_redis_is_ridden_out(tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model", WORDS)
    port = free_port()
    with ExitStack() as running:
        redis = redis_server.start_redis(tmp_path / "redis", port)
        running.callback(redis.stop)
        env = running.enter_context(start_env_server())
        policy = running.enter_context(_start_policy(model, delay_s=0.1))
        stack = _make_stack(tmp_path, "crash", redis.url, env.url, policy)
        stack.publish(0)
        with _orchestrator(stack):
            while len(stack.requests()) < 20:
                time.sleep(0.05)
            os.kill(redis.pid, signal.SIGKILL)
            redis.stop()
            time.sleep(1)
            running.enter_context(redis_server.start_redis(tmp_path / "redis", port))
            assert len(_read(stack, 0)) == 3
            stack.publish(1)
            assert len(_read(stack, 1)) == 3
        stack.channel.close()


def test_a_trainer_that_goes_back_gets_groups_of_the_older_version_again(stack: Stack) -> None:
    """A group that waits for weights which no longer exist must not block the job."""
    stack.publish(0)
    stack.channel.set_policy_version(1)  # the servers still claim 0, so groups of step 1 wait
    with _orchestrator(stack) as (_, url):
        assert len(_read(stack, 0)) == 3
        assert httpx.get(url + "/v1/status").json()["phase"] == "rolling"
        stack.publish(0)
        time.sleep(1)
        assert httpx.get(url + "/v1/status").json()["phase"] == "waiting"
        stack.publish(1)
        groups = _read(stack, 1)
        assert len(groups) == 3
        assert {int(step.policy_versions.min()) for group in groups for e in group.episodes for step in e.steps} == {1}


def test_a_resumed_job_is_not_taken_for_the_one_that_ended(stack: Stack) -> None:
    """The trainer of a resumed job starts more slowly than the orchestrator, and finds the old state in Redis."""
    stack.channel.set_state(JobState.FAILED)
    with _orchestrator(stack) as (process, url):
        while not _answers(url):
            time.sleep(0.05)
        time.sleep(0.5)
        assert process.poll() is None
        stack.publish(0)
        stack.channel.set_state(JobState.RUNNING)
        assert len(_read(stack, 0)) == 3
        stack.channel.set_state(JobState.FAILED)
        assert process.wait(15) == 0


def _answers(url: str) -> bool:
    try:
        return httpx.get(url + "/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_recipe_that_does_not_fit_the_servers_ends_in_an_error_that_names_the_field(stack: Stack) -> None:
    stack.recipe.write_text(
        stack.recipe.read_text().replace('name = "maze"\neval', 'name = "maze"\nsplit = "tarin"\neval')
    )
    with _orchestrator(stack) as (process, _):
        assert process.wait(20) == 1
    assert "environments.0.split = 'tarin'" in (stack.folder / "orchestrator.log").read_text()


def test_ctrl_c_ends_it_and_closes_its_sessions(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=-1, status=503)
    before = _open_sessions(stack)
    with _orchestrator(stack) as (process, url):
        deadline = time.monotonic() + 20
        while not _rolling(url) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _open_sessions(stack) > before
        process.send_signal(signal.SIGINT)
        assert process.wait(15) in {0, -signal.SIGINT}
    assert _open_sessions(stack) == before


def _rolling(url: str) -> bool:
    try:
        return bool(httpx.get(url + "/v1/status").json()["episodes_in_flight"])
    except httpx.TransportError:
        return False


def test_an_evaluation_reports_the_same_for_the_same_seed(stack: Stack) -> None:
    reports = []
    for name, *more in (("a.json", "--quiet"), ("b.json",)):
        out = stack.folder / "reports" / name
        command = [sys.executable, "-m", "services.orchestrator.evaluate", "--recipe", str(stack.recipe)]
        command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--out", str(out)]
        done = subprocess.run(
            [*command, "--episodes", "5", *more], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "of 5 episodes won" in done.stdout
        reports.append(EvaluationReport.model_validate_json(out.read_bytes()))
    one, other = reports
    assert one.results == other.results
    assert sorted(result.task_id for result in one.results) == [f"maze-{rooms}" for rooms in range(23, 28)]
    assert (one.splits, one.seed, one.episodes, one.failed) == (["valid"], 1234, 5, 0)
    assert one.won == sum(result.won for result in one.results)
    assert one.mean_steps == sum(result.steps for result in one.results) / 5
    assert one.success_interval.low <= one.success_rate <= one.success_interval.high
    assert {request["sampling"]["temperature"] for request in stack.requests()} == {1.0}  # type: ignore[index]


def test_an_evaluation_against_a_missing_split_says_which_there_are(stack: Stack) -> None:
    command = [sys.executable, "-m", "services.orchestrator.evaluate", "--recipe", str(stack.recipe), "--split", "tset"]
    command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--out", str(stack.folder / "x.json")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "environments.0.eval_split = 'tset'" in done.stderr
    assert "'valid': 5" in done.stderr
