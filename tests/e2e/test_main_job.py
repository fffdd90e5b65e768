"""The main job as a user runs it: `gagpo train`, every part real, killed in the middle and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import REPOSITORY, processes_of

RECIPE = REPOSITORY / "configs" / "alfworld-cpu.toml"
STEPS = 4
CHANGES = [
    f"training.steps={STEPS}",
    "training.checkpoint_every=1",
    "training.budget_s=600",
    "rollout.groups_per_step=4",
    "rollout.group_size=4",
    "evaluation.episodes=16",
]
DEADLINE_S = 240.0


@pytest.fixture(autouse=True)
def broken_webshop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The recipe has nothing to do with WebShop, so its data must not matter."""
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path / "nowhere"))


def _command(runs: Path) -> list[str]:
    changes = [part for change in CHANGES for part in ("--set", change)]
    return [sys.executable, "-m", "gagpo", "train", str(RECIPE), "--runs", str(runs), "--run", "job", *changes]


def _steps_done(run: Path) -> list[int]:
    metrics = run / "metrics.jsonl"
    return [json.loads(line)["step"] for line in metrics.read_text().splitlines()] if metrics.exists() else []


def _kill_trainer_after_two_steps(command: subprocess.Popen[str], run: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(_steps_done(run)) < 2:
        assert command.poll() is None, f"ended early:\n{command.stdout.read() if command.stdout else ''}"
        assert time.monotonic() < deadline, "no two training steps in time"
        time.sleep(0.05)
    trainer = next(pid for pid, line in processes_of(run).items() if "services.trainer " in line)
    os.kill(trainer, signal.SIGKILL)


@pytest.mark.timeout(600)
def test_a_killed_trainer_goes_on_and_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    run = tmp_path / "job"
    with subprocess.Popen(
        _command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY
    ) as first:
        _kill_trainer_after_two_steps(first, run)
        said, _ = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "trainer was ended by SIGKILL" in said
    assert not processes_of(run), "the command left processes behind"
    assert not (run / "summary.json").exists()

    again = subprocess.run(
        _command(tmp_path), capture_output=True, text=True, cwd=REPOSITORY, timeout=DEADLINE_S, check=False
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert not processes_of(run)
    assert _steps_done(run) == list(range(STEPS)), "every training step stands in the metrics exactly once"
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["training_steps"], summary["policy_version"]) == (STEPS, STEPS)
    assert summary["episodes"] == STEPS * 4 * 4
    assert summary["before"]["policy_version"] == 0
    assert summary["after"]["policy_version"] == STEPS
    assert summary["before"]["episodes"] == summary["after"]["episodes"] == 16
    assert (run / "learning-curve.png").read_bytes().startswith(b"\x89PNG")

    once_more = subprocess.run(
        _command(tmp_path), capture_output=True, text=True, cwd=REPOSITORY, timeout=60, check=False
    )
    assert once_more.returncode == 0
    assert "complete already" in once_more.stdout


@pytest.mark.timeout(300)
def test_ctrl_c_stops_every_process(tmp_path: Path) -> None:
    run = tmp_path / "job"
    with subprocess.Popen(
        _command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY
    ) as command:
        deadline = time.monotonic() + DEADLINE_S
        while not (run / "logs" / "policy-server.log").exists():
            assert time.monotonic() < deadline, "the servers did not start in time"
            time.sleep(0.1)
        time.sleep(5)  # in the middle of vLLM's start, where it is least ready to be stopped
        command.send_signal(signal.SIGINT)
        said, _ = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "every process was stopped" in said
    assert not processes_of(run)
