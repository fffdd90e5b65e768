"""A job through all services, with vLLM: submitted, evaluated, trained on what the following orchestrator makes."""

import tomllib
from pathlib import Path

import httpx
import pytest

from shared.buffer import EventReader
from shared.schemas.evaluation import EvaluationReport
from shared.schemas.job import JobState
from tests.job_service import TrainerUnderTest
from tests.processes import start_service
from tests.training_system import MazeSystem, start_following_orchestrator

pytestmark = pytest.mark.slow


def test_two_jobs_run_one_after_the_other_each_from_the_models_own_weights(
    maze_system: MazeSystem, tmp_path: Path
) -> None:
    document = tomllib.loads(maze_system.write_recipe(tmp_path, steps=2).read_text())
    document["model"]["path"] = "model"
    document["evaluation"] = {"episodes": 8}
    variables = {
        "REDIS_URL": maze_system.redis_url,
        "GAGPO_TRAINER_RUNS": str(tmp_path / "runs"),
        "GAGPO_TRAINER_ENV_URL": maze_system.env_url,
        "GAGPO_TRAINER_POLICY_URL": maze_system.policy.url,
    }
    with (
        start_following_orchestrator(
            tmp_path / "orchestrator.log", maze_system.env_url, maze_system.policy.url, maze_system.redis_url
        ),
        start_service("services.trainer.server", variables) as process,
    ):
        trainer = TrainerUnderTest(process, process.url + "/v1/jobs")
        for job in ("first", "second"):
            assert trainer.submit(document, job).status_code == 201
        for job in ("first", "second"):
            trainer.wait_for(job, JobState.COMPLETED, deadline_s=240)
        first, second = (_evaluations(trainer, job) for job in ("first", "second"))
        events = EventReader(maze_system.redis_url, "second").read()
    assert [report.policy_version for report in (*first, *second)] == [0, 2, 0, 2]
    assert first[0].results == second[0].results, "the second job begins where the first one began"
    told = [event.payload for event in events if event.kind == "evaluation"]
    assert [payload["when"] for payload in told] == ["before", "after"]
    assert told[1]["success_rate"] == second[1].success_rate
    kinds = [event.kind for event in events]
    assert kinds.index("evaluation") < kinds.index("trainer-started")
    assert kinds[-1] == "state"


def _evaluations(trainer: TrainerUnderTest, job: str) -> tuple[EvaluationReport, EvaluationReport]:
    before, after = (
        EvaluationReport.model_validate_json(trainer.get(f"{job}/evaluations/{when}").content)
        for when in ("before", "after")
    )
    assert httpx.get(f"{trainer.jobs}/{job}/evaluations/never").status_code == 422
    return before, after
