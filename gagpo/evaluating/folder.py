"""The folder of an evaluation: what was asked for, every transcript, and the reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, ValidationError

from gagpo.evaluating.errors import EvaluationError
from shared.files import try_lock, write_atomically
from shared.schemas.evaluation import EvaluationReport, EvaluationSpec

_FREE = ("concurrency", "retries")
"""What may differ when an evaluation goes on."""


@dataclass(frozen=True, slots=True)
class EvaluationFolder:
    """Where its files lie."""

    path: Path

    @property
    def spec(self) -> Path:
        """What was asked for."""
        return self.path / "evaluation.json"

    @property
    def transcripts(self) -> Path:
        """One finished episode a line."""
        return self.path / "transcripts.jsonl"

    @property
    def report(self) -> Path:
        """The figures and every episode's result."""
        return self.path / "report.json"

    @property
    def markdown(self) -> Path:
        """The figures, to read."""
        return self.path / "report.md"

    @contextmanager
    def claim(self, spec: EvaluationSpec) -> Iterator[None]:
        """Hold the folder for this spec. Raises `EvaluationError` where it has another, or somebody works there."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "evaluation.lock").open("w") as lock:
            if not try_lock(lock):
                raise EvaluationError(f"{self.path} is being evaluated by another process; stop that one first")
            if self.spec.exists():
                self._check_same(spec)
            write_atomically(self.spec, f"{spec.model_dump_json(indent=2)}\n".encode())
            yield

    def complete(self) -> EvaluationReport | None:
        """The report, where there is one and no episode is missing."""
        if not self.report.exists():
            return None
        report = read_report(self.report)
        return report if report.failed == 0 else None

    def _check_same(self, spec: EvaluationSpec) -> None:
        try:
            begun = EvaluationSpec.model_validate_json(self.spec.read_bytes())
        except ValidationError as error:
            raise EvaluationError(f"{self.spec} is of another release; give another --out") from error
        different = differences(begun, spec)
        if different:
            told = "; ".join(f"{field} was {was}, now {now}" for field, (was, now) in different.items())
            raise EvaluationError(f"{self.path} was begun with other arguments ({told}): give another --out")


def differences(one: EvaluationSpec, other: EvaluationSpec) -> dict[str, tuple[str, str]]:
    """Dotted field → what both specs say of it, of what decides the episodes that are played."""
    these, those = _flat(one), _flat(other)
    return {
        field: (these.get(field, "not set"), those.get(field, "not set"))
        for field in sorted(these | those)
        if these.get(field) != those.get(field)
    }


def _flat(spec: EvaluationSpec) -> dict[str, str]:
    return dict(_leaves(spec.model_dump(mode="json", exclude=set(_FREE)), ""))


def _leaves(value: JsonValue, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = [(str(index), part) for index, part in enumerate(value)]
    else:
        yield place, str(value)
        return
    for name, part in parts:
        yield from _leaves(part, f"{place}.{name}" if place else name)


def read_report(path: Path) -> EvaluationReport:
    """The report in a file, or in an evaluation's folder. Raises `EvaluationError`."""
    file = EvaluationFolder(path).report if path.is_dir() else path
    try:
        return EvaluationReport.model_validate_json(file.read_bytes())
    except OSError as error:
        raise EvaluationError(
            f"there is no report at {file}: give an evaluation's folder or its report.json"
        ) from error
    except ValidationError as error:
        raise EvaluationError(f"{file} is no evaluation's report: {error.errors()[0]['msg']}") from error
