"""Jobs from outside of the containers' network, with containers that die in the middle."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from gagpo.client import Client, JobError
from services.trainer.checkpoints import read_state
from shared.schemas.job import JobDetail, JobState
from tests.compose.system import HEALTHY_DEADLINE_S, ComposeSystem
from tests.processes import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.compose, pytest.mark.timeout(2700)]

STEPS, GROUPS = 8, 4
JOB_DEADLINE_S = 900.0
STOP_DEADLINE_S = 12.0
"""Ten seconds, and what Docker needs itself."""

OVERRIDES = {
    "training.steps": STEPS,
    "training.checkpoint_every": 2,
    "training.keep_checkpoints": STEPS,
    "rollout.groups_per_step": GROUPS,
    "rollout.group_size": 4,
    "evaluation.episodes": 0,
}


def test_a_job_outlives_the_crash_of_an_env_server_and_of_the_trainer(system: ComposeSystem, tmp_path: Path) -> None:
    took = system.up()
    print(f"\nhealthy after {took:.0f} s")
    assert took <= HEALTHY_DEADLINE_S
    assert httpx.get(f"{system.url}/v1/jobs").status_code == 401, "the job API asks for a token"
    job = submit(system)
    with system.client() as client:
        wait_for_version(client, job, 2)
        system.crash("env-server")
        wait_for_version(client, job, 4)
        system.crash("trainer")
        finish(client, job)
        assert_every_group_was_used_once(client, job, tmp_path)
    started = time.monotonic()
    system.compose("stop")
    took = time.monotonic() - started
    print(f"stopped in {took:.1f} s")
    assert took <= STOP_DEADLINE_S


def test_replicas_share_the_work_and_one_may_die(system: ComposeSystem, tmp_path: Path) -> None:
    took = system.up(env_server=3, orchestrator=2)
    print(f"\nthree env servers and two orchestrators healthy after {took:.0f} s")
    assert len(system.containers("env-server")) == 3
    job = submit(system)
    with system.client() as client:
        wait_for_version(client, job, 2)
        log = system.compose("logs", "--no-color", "orchestrator").splitlines()
        system.kill("env-server")
        system.kill("orchestrator")
        wait_for_version(client, job, 3)
        finish(client, job)
        assert_every_group_was_used_once(client, job, tmp_path)
    assert len(system.containers("env-server")) == 2, "nobody started it anew"
    assert len({line.split("|")[0].strip() for line in log if job in line}) == 2, "both took the job up"


def submit(system: ComposeSystem) -> str:
    """Submit a short job with the command line; its id."""
    sets = [flag for key, value in OVERRIDES.items() for flag in ("--set", f"{key}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "gagpo", "job", "submit", "configs/alfworld-cpu.toml", *sets, "--server", system.url],
        cwd=REPOSITORY,
        env={**os.environ, "GAGPO_TOKEN": system.token},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_for_version(client: Client, job: str, version: int) -> None:
    """Until so many training steps are done."""
    give_up = time.monotonic() + JOB_DEADLINE_S
    while (found := look(client, job)) is None or found.policy_version < version:
        assert found is None or not found.state.over, found
        assert time.monotonic() < give_up, found
        time.sleep(0.5)


def finish(client: Client, job: str) -> None:
    """Until the job is over, and completed."""
    give_up = time.monotonic() + JOB_DEADLINE_S
    while (found := look(client, job)) is None or not found.state.over:
        assert time.monotonic() < give_up, found
        time.sleep(1)
    assert (found.state, found.policy_version) == (JobState.COMPLETED, STEPS), found.reason


def look(client: Client, job: str) -> JobDetail | None:
    """The job, or None while the trainer is away."""
    try:
        return client.get(job)
    except JobError:
        return None


def assert_every_group_was_used_once(client: Client, job: str, folder: Path) -> None:
    """The checkpoints say which groups they were trained on."""
    used: Counter[tuple[int, int]] = Counter()
    for checkpoint in client.checkpoints(job):
        kept = client.download(job, folder / f"v{checkpoint.version}", checkpoint.version)
        used.update((step, index) for step, index in read_state(kept).consumed)
    assert used == {(step, index): 1 for step in range(STEPS) for index in range(GROUPS)}
