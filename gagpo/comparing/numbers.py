"""``numbers.json``: every number of a report, with the runs that it comes from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel

from gagpo.comparing.curves import COURSES, SUCCESS, Curve, mean_curve
from gagpo.comparing.figures import FIGURES, Figure, Scale
from gagpo.comparing.planning import PlannedRun, RunState
from gagpo.comparing.run_data import RunData, read_run
from gagpo.comparing.run_record import read_record
from gagpo.comparing.statistics import Estimate, estimate, paired_difference
from gagpo.comparing.study import Base, Budget, Family, Study, Variant


class MissingRun(BaseModel):
    """A run that is not in the figures."""

    run: str
    state: RunState
    reason: str | None
    """Why it failed."""


class VariantNumbers(BaseModel):
    """A variant on a base."""

    name: str
    label: str
    family: Family
    runs: list[str]
    """Complete runs, folders below ``runs/``; the figures are theirs."""
    figures: dict[str, Estimate]
    """By a figure's key; one that no run has is left out."""
    differences: dict[str, Estimate]
    """From the reference variant, paired by seed, for figures that all paired runs have; none for itself."""
    curves: dict[str, Curve]


class BaseNumbers(BaseModel):
    """A base: what its variants are compared by, and how they did."""

    name: str
    recipe: str
    budget: Budget
    threshold: float
    early_steps: float
    """Environment steps that count as early learning."""
    before: Estimate | None
    """Held-out success before training, by run."""
    variants: list[VariantNumbers]
    missing: list[MissingRun]

    def family(self, family: Family, reference: str) -> list[VariantNumbers]:
        """The variants of a table: a family's, and the reference before the ablations."""
        own = [one for one in self.variants if one.family is family]
        first = [one for one in self.variants if one.name == reference and family is Family.ABLATION and one not in own]
        return [*first, *own] if own else []


class StudyNumbers(BaseModel):
    """A whole study."""

    study: str
    reference: str
    seeds: list[int]
    meanings: dict[str, str]
    """Figure → what it means."""
    bases: list[BaseNumbers]

    @classmethod
    def gather(cls, study: Study, runs: Sequence[PlannedRun]) -> Self:
        """Read every complete run and put its numbers together."""
        return cls(
            study=study.name,
            reference=study.reference_name,
            seeds=study.seeds,
            meanings={figure.key: figure.meaning for figure in FIGURES},
            bases=[_base_numbers(study, base, [run for run in runs if run.base == base.name]) for base in study.bases],
        )


def _base_numbers(study: Study, base: Base, runs: Sequence[PlannedRun]) -> BaseNumbers:
    states = {run.name: run.state() for run in runs}
    complete = {run.name: read_run(run) for run in runs if states[run.name] is RunState.COMPLETE}
    of_variant = {
        variant.name: [complete[run.name] for run in runs if run.variant == variant.name and run.name in complete]
        for variant in study.variants_on(base)
    }
    budget = study.budget_of(base)
    scale = Scale(study.threshold_of(base), study.early_share * _environment_steps(budget, list(complete.values())))
    reference = of_variant.get(study.reference_name, [])
    before = {name: run.before.success_rate for name, run in complete.items() if run.before is not None}
    return BaseNumbers(
        name=base.name,
        recipe=_shown(base.recipe),
        budget=budget,
        threshold=scale.threshold,
        early_steps=scale.early_steps,
        before=estimate(before),
        variants=[
            _variant_numbers(variant, of_variant[variant.name], reference, scale, variant.name == study.reference_name)
            for variant in study.variants_on(base)
        ],
        missing=[
            MissingRun(run=run.name, state=states[run.name], reason=read_record(run.folder).failure)
            for run in runs
            if run.name not in complete
        ],
    )


def _environment_steps(budget: Budget, runs: Sequence[RunData]) -> float:
    """The budget in environment steps; where it is another one, what the shortest run used."""
    if budget.environment_steps is not None:
        return float(budget.environment_steps)
    return float(min((run.steps[-1].environment_steps_total for run in runs if run.steps), default=0))


def _variant_numbers(
    variant: Variant, runs: Sequence[RunData], reference: Sequence[RunData], scale: Scale, itself: bool
) -> VariantNumbers:
    curves = {kind.key: mean_curve(runs, kind) for kind in (SUCCESS, *COURSES)}
    return VariantNumbers(
        name=variant.name,
        label=variant.label,
        family=variant.family,
        runs=[run.name for run in runs],
        figures=dict(_figures(runs, scale)),
        differences={} if itself else dict(_differences(runs, reference, scale)),
        curves={key: curve for key, curve in curves.items() if curve is not None},
    )


def _figures(runs: Sequence[RunData], scale: Scale) -> Iterator[tuple[str, Estimate]]:
    for figure in FIGURES:
        values = {run.name: value for run in runs if (value := figure.of(run, scale)) is not None}
        if (found := estimate(values)) is not None:
            yield figure.key, found


def _differences(runs: Sequence[RunData], reference: Sequence[RunData], scale: Scale) -> Iterator[tuple[str, Estimate]]:
    seeds = {run.seed for run in runs} & {run.seed for run in reference}
    for figure in FIGURES:
        own, theirs = (_by_seed(some, figure, scale, seeds) for some in (runs, reference))
        # Where a run has no value (it never reached the threshold), the rest are a choice of the lucky ones.
        if len(own) == len(theirs) == len(seeds) and (found := paired_difference(own, theirs)) is not None:
            yield figure.key, found


def _by_seed(runs: Sequence[RunData], figure: Figure, scale: Scale, seeds: set[int]) -> Mapping[int, float]:
    return {run.seed: value for run in runs if run.seed in seeds and (value := figure.of(run, scale)) is not None}


def _shown(path: Path) -> str:
    """A recipe's folder and name: enough to know it by, and nothing of the machine."""
    return f"{path.parent.name}/{path.name}"
