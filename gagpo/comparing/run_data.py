"""What a run left behind, as the report reads it."""

from dataclasses import dataclass
from pathlib import Path

from gagpo.comparing.planning import PlannedRun
from gagpo.comparing.run_record import read_record
from gagpo.training.phases import read_evaluation
from gagpo.training.records import StepMetrics
from shared.schemas.evaluation import EvaluationReport


class StepRecord(StepMetrics):
    """A line of ``metrics.jsonl``: what is compared of it. docs/gagpo.md says what each metric means."""

    environment_steps: int
    environment_steps_total: int
    grad_norm: float
    kl_old_new: float
    entropy: float
    advantage_iqr: float
    advantage_beyond_one: float
    sibling_share: float
    hidden_state_share: float = 0.0
    true_state_known: float = 0.0

    @property
    def environment_steps_before(self) -> int:
        """Environment steps that the policy which played this step had learnt from."""
        return self.environment_steps_total - self.environment_steps

    @property
    def hidden_states(self) -> float | None:
        """``hidden_state_share``, where the environment tells its true states."""
        return self.hidden_state_share if self.true_state_known else None


@dataclass(frozen=True, slots=True)
class RunData:
    """A complete run."""

    name: str
    seed: int
    steps: list[StepRecord]
    before: EvaluationReport | None
    after: EvaluationReport | None
    seconds: float
    """Of wall clock, evaluations and the trainer's start included."""


def read_run(run: PlannedRun) -> RunData:
    """Read a complete run's files."""
    folder = run.folder
    return RunData(
        name=run.name,
        seed=run.seed,
        steps=read_steps(folder.metrics),
        before=read_evaluation(folder.before),
        after=read_evaluation(folder.after),
        seconds=read_record(folder).seconds,
    )


def read_steps(file: Path) -> list[StepRecord]:
    """The training steps in a file of metrics; a line without its end is still being written."""
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    return [StepRecord.model_validate_json(line) for line in lines if line.endswith("\n")]
