"""The job clients and ``gagpo job`` against a real trainer service, over good and bad connections."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
from typer.testing import CliRunner

from gagpo.cli import app
from gagpo.client import AsyncClient, Client, JobError, Patience
from gagpo.ports import free_port
from shared.schemas.job import JobEvent, JobState
from shared.telemetry import readable
from tests.cutting_proxy import cutting_proxy
from tests.job_service import JobSystem, TrainerUnderTest
from tests.processes import REPOSITORY

JOB = "maze"
STEPS = 3
IMPATIENT = Patience(give_up_s=0.5, wait_first_s=0.05, wait_most_s=0.1)
HASTY = Patience(wait_first_s=0.05, wait_most_s=0.1)


@pytest.fixture(scope="module")
def trainer(system: JobSystem) -> Iterator[TrainerUnderTest]:
    with system.trainer() as running:
        yield running


@pytest.fixture(scope="module")
def server(trainer: TrainerUnderTest) -> str:
    return trainer.process.url


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server) as opened:
        yield opened


@pytest.fixture(scope="module")
def running(system: JobSystem, trainer: TrainerUnderTest, server: str) -> str:
    """A job that waits for its first groups."""
    with Client(server) as client:
        client.submit(system.recipe(steps=STEPS), JOB)
    trainer.wait_for(JOB, JobState.RUNNING)
    return JOB


@pytest.fixture(scope="module")
def seen(system: JobSystem, running: str, server: str) -> list[JobEvent]:
    """The same job, trained to its end while somebody watched it over connections that were cut again and again."""
    events: list[JobEvent] = []
    with cutting_proxy(server, [1500, 700, 1200]) as proxy, Client(proxy.url, patience=HASTY) as client:
        watching = threading.Thread(target=lambda: events.extend(client.watch(running)))
        watching.start()
        for step in range(STEPS):
            system.add_groups(running, range(step, step + 1))
        watching.join(120)
        assert not watching.is_alive(), "the stream ends when the job is over"
        assert proxy.cuts == [], "every cut has happened"
        assert sum("last-event-id" in request.lower() for request in proxy.requests) >= 2
    return events


def gagpo(*arguments: str, server: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``gagpo job``."""
    result = CliRunner().invoke(app, ["job", *arguments], env={"GAGPO_SERVER": server, "COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


def recipe_file(system: JobSystem, folder: Path, **changes: object) -> Path:
    file = folder / "recipe.toml"
    file.write_text(tomli_w.dumps(system.recipe() | changes))
    return file


def test_interrupting_a_watch_leaves_the_job_running_and_says_so(running: str, server: str, client: Client) -> None:
    command = [sys.executable, "-m", "gagpo", "job", "watch", running, "--server", server]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "queued\n"
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == "The job goes on. Look again with: gagpo job watch maze\n"
    assert client.get(running).state is JobState.RUNNING


def test_a_job_behind_another_is_cancelled_resumed_and_cancelled_again(
    system: JobSystem, running: str, client: Client, server: str
) -> None:
    job = client.submit(system.recipe(), "behind")
    assert (job.state, job.position) == (JobState.QUEUED, 0)
    assert client.submit(system.recipe(), "behind").submitted_at == job.submitted_at
    assert gagpo("cancel", "behind", server=server) == (0, "cancelled\n", "")
    assert gagpo("resume", "behind", server=server) == (0, "queued\n", "")
    assert client.cancel("behind").state is JobState.CANCELLED
    code, told, _ = gagpo("watch", "behind", server=server)
    assert code == 3
    assert told.splitlines()[-1] == "behind cancelled after 0 of 2 training steps: cancelled by request"


async def test_a_job_that_is_over_is_deleted(system: JobSystem, running: str, client: Client, server: str) -> None:
    code, _, refused = gagpo("delete", running, server=server)
    assert (code, "cancel it first" in refused) == (1, True)
    for name in ("one", "two", "three"):
        client.submit(system.recipe(), name)
        client.cancel(name)
    client.delete("one")
    async with AsyncClient(server) as other:
        await other.delete("two")
        with pytest.raises(JobError) as again:
            await other.delete("two")
    assert again.value.type == "/problems/unknown-job"
    assert gagpo("delete", "three", server=server) == (0, "", "three is deleted\n")
    assert not {"one", "two", "three"} & {job.id for job in client.list()}


def test_a_watch_over_cut_connections_misses_nothing_and_repeats_nothing(seen: list[JobEvent], client: Client) -> None:
    assert seen == list(client.watch(JOB))
    assert [event.payload["step"] for event in seen if event.kind == "step"] == list(range(STEPS))
    assert (seen[-1].kind, seen[-1].payload["state"]) == ("state", "completed")
    middle = len(seen) // 2
    assert list(client.watch(JOB, after=seen[middle].id)) == seen[middle + 1 :]
    assert list(client.watch(JOB, after=seen[-1].id)) == []


async def test_both_clients_say_the_same(seen: list[JobEvent], server: str, client: Client, tmp_path: Path) -> None:
    async with AsyncClient(server) as other:
        assert await other.list() == client.list()
        assert await other.get(JOB) == client.get(JOB)
        assert await other.checkpoints(JOB) == client.checkpoints(JOB)
        assert [event async for event in other.watch(JOB)] == seen
        assert await other.logs(JOB, 5) == client.logs(JOB, 5)
        assert [line async for line in other.follow_logs(JOB)] == list(client.follow_logs(JOB))
        told: list[tuple[int, int | None]] = []
        await other.download(JOB, tmp_path / "one", progress=lambda received, total: told.append((received, total)))
        client.download(JOB, tmp_path / "two")
        assert files(tmp_path / "one") == files(tmp_path / "two")
        assert told[-1][0] == told[-1][1]
        with pytest.raises(JobError) as theirs:
            await other.get("nobody")
    with pytest.raises(JobError) as ours:
        client.get("nobody")
    assert str(theirs.value) == str(ours.value)


async def test_an_asyncio_watch_rides_out_cut_connections_too(seen: list[JobEvent], server: str) -> None:
    with cutting_proxy(server, [1000, 2000]) as proxy:
        async with AsyncClient(proxy.url, patience=HASTY) as client:
            assert [event async for event in client.watch(JOB)] == seen
        assert proxy.cuts == []


def test_a_log_is_read_from_its_end_and_followed_to_it(seen: list[JobEvent], client: Client, server: str) -> None:
    whole = client.logs(JOB, 1000).splitlines()
    assert any("training from version 0 to 3" in line for line in whole)
    assert client.logs(JOB, 2).splitlines() == whole[-2:]
    assert list(client.follow_logs(JOB, 3)) == whole[-3:]
    with cutting_proxy(server, [600, 400]) as proxy, Client(proxy.url, patience=HASTY) as cut:
        assert list(cut.follow_logs(JOB, 1000)) == whole
    code, told, _ = gagpo("logs", JOB, "-f", "--tail", "4", server=server)
    assert (code, told.splitlines()) == (0, [readable(line) for line in whole[-4:]])


def test_a_download_goes_on_where_its_connection_was_cut(
    system: JobSystem, seen: list[JobEvent], server: str, tmp_path: Path
) -> None:
    told: list[tuple[int, int | None]] = []
    with cutting_proxy(server, [90_000, 60_000]) as proxy, Client(proxy.url, patience=HASTY) as client:
        folder = client.download(
            JOB, tmp_path / "policy", 2, progress=lambda received, total: told.append((received, total))
        )
        asked = [request for request in proxy.requests if "/archive" in request]
    assert len(asked) == 3
    assert all("range: bytes=" in request.lower() for request in asked[1:])
    assert files(folder) == files(system.runs / JOB / "checkpoints" / "step-000002")
    assert [received for received, _ in told] == sorted({received for received, _ in told}), "nothing came twice"
    assert told[-1][0] == told[-1][1]
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_cancelled_download_leaves_nothing(seen: list[JobEvent], server: str, tmp_path: Path) -> None:
    async def cancel_in_the_middle() -> None:
        begun = asyncio.Event()
        async with AsyncClient(proxy.url, patience=HASTY) as client:
            task = asyncio.create_task(client.download(JOB, tmp_path / "policy", progress=lambda *_: begun.set()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with cutting_proxy(server, [80_000] * 40) as proxy:
        asyncio.run(cancel_in_the_middle())  # ends only once the thread of the download has
    assert list(tmp_path.iterdir()) == []


def test_a_download_from_the_command_line(seen: list[JobEvent], server: str, tmp_path: Path) -> None:
    out = tmp_path / "policy"
    assert gagpo("download", JOB, "--weights-only", "--out", str(out), server=server) == (0, f"{out}\n", "")
    assert (out / "model.safetensors").is_file()
    assert not (out / "trainer").exists()
    code, _, told = gagpo("download", JOB, "--out", str(out), server=server)
    assert (code, told) == (1, f"{out} exists already; remove it, or download to another place\n")
    code, _, told = gagpo("download", JOB, "--version", "9", server=server)
    assert (code, told) == (1, "maze has no checkpoint of version 9; there is: 2, 3\n")


def test_jobs_are_listed_and_shown_for_people_and_for_programs(
    system: JobSystem, seen: list[JobEvent], client: Client, server: str, tmp_path: Path
) -> None:
    code, told, _ = gagpo("list", server=server)
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines()}
    assert code == 0
    assert rows[JOB][:2] == ["completed", "3/3"]
    code, told, _ = gagpo("list", "--json", server=server)
    assert [job["id"] for job in json.loads(told)["jobs"]] == [job.id for job in client.list()]
    code, told, _ = gagpo("show", JOB, "--json", server=server)
    assert json.loads(told) == json.loads(client.get(JOB).model_dump_json())
    code, told, _ = gagpo("show", JOB, server=server)
    figures, recipe = told.split("\n\n", 1)
    assert "state       completed: all training steps are done" in figures
    assert "checkpoints 2 (" in figures
    again = tmp_path / "again.toml"
    again.write_text(recipe)
    code, told, _ = gagpo("submit", str(again), "--id", JOB, server=server)
    assert (code, told) == (0, f"{JOB}\n"), "what is shown can be submitted again: it is the same job"


def test_a_completed_watch_prints_its_steps_and_exits_with_0(seen: list[JobEvent], server: str) -> None:
    code, told, _ = gagpo("watch", JOB, server=server)
    lines = told.splitlines()
    assert code == 0
    assert [line.split()[1] for line in lines if line.startswith("step ")] == ["1/3", "2/3", "3/3"]
    assert lines[-1] == "maze completed after 3 of 3 training steps: all training steps are done"


def test_a_recipe_with_a_fault_is_refused_before_anything_is_sent(system: JobSystem, tmp_path: Path) -> None:
    file = recipe_file(system, tmp_path, algorithm={"gama": 0.9})
    nobody = f"http://127.0.0.1:{free_port()}"
    code, told, fault = gagpo("submit", str(file), server=nobody)
    assert (code, told) == (1, "")
    assert "algorithm.gama: unknown key (did you mean 'gamma'?)" in fault
    code, _, fault = gagpo("submit", str(recipe_file(system, tmp_path)), "--set", "algorithm.lam=2", server=nobody)
    assert code == 1
    assert "algorithm.lam = 2" in fault


def test_the_servers_refusals_name_every_field(system: JobSystem, client: Client, server: str, tmp_path: Path) -> None:
    recipe = system.recipe()
    with pytest.raises(JobError) as refused:
        client.submit({**recipe, "algorithm": {"lam": 2.0}, "training": {"steps": 0}})
    assert (refused.value.status, refused.value.type) == (422, "/problems/invalid-recipe")
    assert [fault.field for fault in refused.value.faults] == ["algorithm.lam", "training.steps"]
    assert "\n  algorithm.lam: Input should be less than or equal to 1" in str(refused.value)
    code, _, told = gagpo("submit", str(recipe_file(system, tmp_path, model={"path": "another"})), server=server)
    assert code == 1
    assert "model.path: the policy servers serve 'model'" in told


def test_a_change_of_state_that_is_not_legal_is_refused(seen: list[JobEvent], client: Client, server: str) -> None:
    with pytest.raises(JobError) as refused:
        client.cancel(JOB)
    assert (refused.value.status, refused.value.type) == (409, "/problems/illegal-transition")
    code, _, told = gagpo("resume", JOB, server=server)
    assert code == 1
    assert told.startswith("job maze is completed: only a failed or cancelled job can be resumed")


def test_an_unknown_job_is_refused_by_every_command(client: Client, server: str) -> None:
    for command in ("show", "watch", "logs", "cancel", "resume", "download"):
        code, _, told = gagpo(command, "no/body", server=server)
        assert code == 1, command
        assert "there is no such job" in told or "no/body" in told, command


def test_a_server_that_is_not_there_is_named_with_what_to_check(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, patience=IMPATIENT) as client:
        with pytest.raises(JobError, match=f"no answer from the job server at {url} .*Is the trainer running"):
            client.list()
        start = time.monotonic()
        with pytest.raises(JobError, match=f"curl {url}/readyz"):
            next(client.watch(JOB))
        assert 0.3 < time.monotonic() - start < 5, "it tries for as long as its patience lasts"
    assert gagpo("list", server=url)[0] == 1
    assert gagpo("list", server="trainer:8000")[0] == 2


def test_something_else_that_answers_is_not_taken_for_the_job_server(system: JobSystem) -> None:
    with Client(system.env_url) as client, pytest.raises(JobError) as refused:
        client.list()
    assert refused.value.status == 404


def test_a_token_is_asked_for_taken_from_the_environment_and_never_shown(
    system: JobSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a-token-of-jobs-0123456789"
    monkeypatch.delenv("GAGPO_TOKEN", raising=False)
    monkeypatch.delenv("GAGPO_TOKEN_JOBS", raising=False)
    with system.trainer(GAGPO_TOKEN_JOBS=secret, GAGPO_TRAINER_RUNS=str(system.folder / "other-runs")) as guarded:
        url = guarded.process.url
        with Client(url) as stranger, pytest.raises(JobError, match="GAGPO_TOKEN_JOBS or GAGPO_TOKEN"):
            stranger.list()
        with Client(url, token=secret) as friend:
            assert secret not in repr(friend.server)
            friend.list()
        monkeypatch.setenv("GAGPO_TOKEN_JOBS", secret)
        assert gagpo("list", server=url)[0] == 0


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
