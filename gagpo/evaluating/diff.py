"""Two reports compared, task by task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pydantic import BaseModel

from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.folder import differences
from gagpo.evaluating.paired import PairedTest, bootstrap_interval, success_test, value_test
from shared.schemas.evaluation import EpisodeReport, EvaluationReport, Interval

TaskKey = tuple[str, str]
"""Environment and task id."""


class PairedFigure(BaseModel):
    """One measure of both reports on the same tasks: means over tasks."""

    one: float
    other: float
    difference: float
    """The second less the first."""
    interval: Interval
    """Of the difference, 95%, by paired bootstrap over tasks."""
    test: PairedTest


class PairedTasks(BaseModel):
    """The tasks of one kind, or all of an environment."""

    tasks: int
    success: PairedFigure
    score: PairedFigure | None
    """Null where neither report has graded episodes."""


class Flip(BaseModel):
    """A task whose share of won episodes differs."""

    environment: str
    task_id: str
    task_type: str
    one: float
    other: float


class ReportDiff(BaseModel):
    """What the second report has more or less than the first."""

    one: str
    """Label of the first report's policy."""
    other: str
    environments: dict[str, PairedTasks]
    task_types: dict[str, dict[str, PairedTasks]]
    """Environment → kind of task → its tasks."""
    conditions: dict[str, tuple[str, str]]
    """Field → its values, where the two were made under other conditions, apart from the policy."""
    left_out: int
    """Tasks that only one report has."""
    flips: list[Flip]


@dataclass(frozen=True, slots=True)
class _Pair:
    """One task's episodes in both reports."""

    key: TaskKey
    one: Sequence[EpisodeReport]
    other: Sequence[EpisodeReport]

    @property
    def task_type(self) -> str:
        return self.one[0].task_type


def compare_reports(one: EvaluationReport, other: EvaluationReport, *, common_only: bool = False) -> ReportDiff:
    """Pair the reports by task. Raises `EvaluationError` where they are about different tasks.

    With ``common_only`` the tasks that both have are compared, whatever else there is.
    """
    _check_same_data(one, other)
    these, those = _by_task(one), _by_task(other)
    left_out = len(these.keys() ^ those.keys())
    if left_out and not common_only:
        raise EvaluationError(f"the reports are about different tasks: {_reason(one, other, left_out)}")
    pairs = [_Pair(key, these[key], those[key]) for key in these if key in those]
    if not pairs:
        raise EvaluationError("the reports have no task in common")
    graded = one.graded or other.graded
    names = list(dict.fromkeys(pair.key[0] for pair in pairs))
    by_environment = {name: [pair for pair in pairs if pair.key[0] == name] for name in names}
    return ReportDiff(
        one=_label(one),
        other=_label(other),
        environments={name: _paired(own, graded) for name, own in by_environment.items()},
        task_types={
            name: {kind: _paired([pair for pair in own if pair.task_type == kind], graded) for kind in _kinds(own)}
            for name, own in by_environment.items()
        },
        conditions=_conditions(one, other),
        left_out=left_out,
        flips=[flip for pair in pairs if (flip := _flip(pair)).one != flip.other],
    )


def _kinds(pairs: Sequence[_Pair]) -> list[str]:
    return sorted({pair.task_type for pair in pairs})


def _by_task(report: EvaluationReport) -> Mapping[TaskKey, list[EpisodeReport]]:
    tasks: dict[TaskKey, list[EpisodeReport]] = {}
    for result in report.results:
        tasks.setdefault((result.environment, result.task_id), []).append(result)
    return tasks


def _paired(pairs: Sequence[_Pair], graded: bool) -> PairedTasks:
    won = [(_won(pair.one), _won(pair.other)) for pair in pairs]
    scores = [(_score(pair.one), _score(pair.other)) for pair in pairs]
    single = all(len(pair.one) == len(pair.other) == 1 for pair in pairs)
    success = success_test(won) if single else value_test(won)
    return PairedTasks(
        tasks=len(pairs),
        success=_figure(won, success),
        score=_figure(scores, value_test(scores)) if graded else None,
    )


def _figure(values: Sequence[tuple[float, float]], test: PairedTest) -> PairedFigure:
    one, other = fmean(first for first, _ in values), fmean(second for _, second in values)
    return PairedFigure(one=one, other=other, difference=other - one, interval=bootstrap_interval(values), test=test)


def _won(episodes: Sequence[EpisodeReport]) -> float:
    return fmean(float(episode.won) for episode in episodes)


def _score(episodes: Sequence[EpisodeReport]) -> float:
    return fmean(episode.score for episode in episodes)


def _flip(pair: _Pair) -> Flip:
    environment, task_id = pair.key
    return Flip(
        environment=environment,
        task_id=task_id,
        task_type=pair.task_type,
        one=_won(pair.one),
        other=_won(pair.other),
    )


def _label(report: EvaluationReport) -> str:
    if report.spec is None:
        return f"policy version {report.policy_version}"
    version = f", version {report.policy_version}" if report.policy_version else ""
    return f"{report.spec.policy.label}{version}"


def _check_same_data(one: EvaluationReport, other: EvaluationReport) -> None:
    """Equal ids of other data are other tasks, which nothing can pair."""
    these, those = _digests(one), _digests(other)
    for name in these.keys() & those.keys():
        if these[name] != those[name]:
            raise EvaluationError(
                f"data_digest of {name} differs, {these[name][:12]}… and {those[name][:12]}…: equal task ids mean "
                "different tasks there; evaluate both on the same data"
            )


def _digests(report: EvaluationReport) -> dict[str, str]:
    environments = [] if report.spec is None else report.spec.environments
    return {one.settings.name: one.data_digest for one in environments if one.data_digest is not None}


def _reason(one: EvaluationReport, other: EvaluationReport, left_out: int) -> str:
    """The field that makes them so."""
    remedy = "--common-only compares the tasks that both have"
    if one.environments.keys() != other.environments.keys():
        return f"environments {', '.join(one.environments)} and {', '.join(other.environments)}; {remedy}"
    for name, own in one.environments.items():
        split = other.environments[name].split
        if own.split != split:
            return f"split of {name} is {own.split} and {split}; {remedy}"
    if one.seed != other.seed:
        return f"seed is {one.seed} and {other.seed}, so other tasks were drawn; {remedy}"
    return f"tasks: {one.tasks} and {other.tasks}, {left_out} of them in one report only; {remedy}"


def _conditions(one: EvaluationReport, other: EvaluationReport) -> dict[str, tuple[str, str]]:
    if one.spec is None or other.spec is None:
        same = one.temperature == other.temperature
        return {} if same else {"temperature": (str(one.temperature), str(other.temperature))}
    found = differences(one.spec, other.spec)
    return {field: values for field, values in found.items() if not field.startswith("policy")}
