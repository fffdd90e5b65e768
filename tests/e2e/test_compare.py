"""`gagpo compare` as a user runs it: every part real, told to end in the middle and started again."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gagpo.comparing.numbers import StudyNumbers
from tests.processes import REPOSITORY, processes_of, without_settings

STUDY = REPOSITORY / "configs" / "studies" / "smoke.toml"
RUNS = ["alfworld-gagpo-s1", "alfworld-gagpo-lambda-0-s1", "alfworld-gagpo-s2", "alfworld-gagpo-lambda-0-s2"]
DEADLINE_S = 1500.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def _command(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "gagpo", "compare", str(STUDY), "--out", str(out), *options]


def _compare(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(out, *options),
        cwd=REPOSITORY,
        env=without_settings(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def _steps(run: Path) -> list[int]:
    metrics = run / "metrics.jsonl"
    return [json.loads(line)["step"] for line in metrics.read_text().splitlines()] if metrics.exists() else []


def _end_in_the_second_run(out: Path) -> None:
    """Start the study, and tell it to end once its second run has made a training step."""
    second = out / "runs" / RUNS[1]
    with subprocess.Popen(
        _command(out), cwd=REPOSITORY, env=without_settings(), stderr=subprocess.PIPE, text=True
    ) as study:
        deadline = time.monotonic() + DEADLINE_S
        while not _steps(second):
            assert study.poll() is None, study.stderr.read() if study.stderr else ""
            assert time.monotonic() < deadline, "the second run did not come to a training step"
            time.sleep(0.1)
        study.send_signal(signal.SIGTERM)
        _, said = study.communicate(timeout=120)
    assert study.returncode == 130
    assert "every process was stopped" in said
    assert not processes_of(out), "the command left processes behind"
    assert not (second / "summary.json").exists()


def test_a_study_that_was_ended_goes_on_where_it_was_and_reports(tmp_path: Path) -> None:
    out = tmp_path / "study"
    _end_in_the_second_run(out)
    first = out / "runs" / RUNS[0] / "summary.json"
    written = first.stat().st_mtime_ns
    partial = _compare(out, "--report-only")
    assert partial.returncode == 0, partial.stdout + partial.stderr
    assert f"`{RUNS[1]}` is unfinished" in (out / "report" / "report.md").read_text()

    done = _compare(out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert first.stat().st_mtime_ns == written, "a complete run is left alone"
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:-1]] == RUNS[1:]
    assert not processes_of(out)
    _check_runs(out)
    _check_report(out)
    again = _compare(out)
    assert (again.returncode, len(again.stdout.splitlines())) == (0, 1), "nothing is left to do but the report"


def _check_runs(out: Path) -> None:
    before = set()
    for name in RUNS:
        run = out / "runs" / name
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == list(range(len(rows))), "every training step exactly once"
        assert rows[-1]["environment_steps_total"] >= 600 > rows[-2]["environment_steps_total"]
        summary = json.loads((run / "summary.json").read_text())
        assert summary["before"]["policy_version"] == 0
        assert summary["after"]["policy_version"] == len(rows)
        before.add((run / "evaluation-before.json").read_text())
    assert len(before) == 1, "the untrained policy was evaluated once for all"


def _check_report(out: Path) -> None:
    numbers = StudyNumbers.model_validate_json((out / "report" / "numbers.json").read_bytes())
    [base] = numbers.bases
    assert base.missing == []
    for variant in base.variants:
        for run, value in variant.figures["held_out_success"].values.items():
            summary = json.loads((out / "runs" / run / "summary.json").read_text())
            assert summary["after"]["success_rate"] == value


def test_a_run_that_cannot_be_made_is_told_and_the_others_are(tmp_path: Path) -> None:
    """The split of one variant is not there; the two run side by side."""
    study = STUDY.read_text().replace('"../', f'"{STUDY.parents[1]}/').replace("seeds = [1, 2]", "seeds = [1]")
    broken = study.replace('family = "ablation"', 'family = "ablation"\nset = [\'environments.alfworld.split="no"\']')
    assert broken != study
    (tmp_path / "study.toml").write_text(broken)
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "gagpo", "compare", str(tmp_path / "study.toml"), "--out", str(out), "--parallel", "2"],
        cwd=REPOSITORY,
        env=without_settings(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 2 runs failed: alfworld-gagpo-lambda-0-s1" in done.stdout
    assert (out / "runs" / RUNS[0] / "summary.json").exists()
    told = (out / "report" / "report.md").read_text()
    assert "`alfworld-gagpo-lambda-0-s1` is failed" in told
    assert not processes_of(out)
