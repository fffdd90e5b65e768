"""``report.md``: the numbers in tables, each row with its runs."""

from collections.abc import Callable, Iterator, Sequence

from gagpo.comparing.figures import FIGURES, Figure, Topic, Unit
from gagpo.comparing.numbers import BaseNumbers, MissingRun, StudyNumbers, VariantNumbers
from gagpo.comparing.statistics import Estimate
from gagpo.comparing.study import Budget, Family

_TITLES = {Family.METHOD: "Methods", Family.ABLATION: "Ablations"}
_NOTHING = "–"


def report_markdown(numbers: StudyNumbers, plots: dict[tuple[str, Family], list[str]]) -> str:
    """The whole report. ``plots``: file names of the pictures of a base's family."""
    bases = (line for base in numbers.bases for line in _base(numbers, base, plots))
    return "\n".join([*_head(numbers), *bases, *_meanings(), ""])


def _head(numbers: StudyNumbers) -> Iterator[str]:
    yield f"# {numbers.study}"
    yield ""
    yield (
        f"Seeds {', '.join(map(str, numbers.seeds))}. Figures are means over seeds ± half of the 95% t-interval; the "
        "bands of curves are from the lowest seed to the highest. A row links to the runs that it is made of; "
        "`numbers.json` has each run's own value. "
        f"Differences are from {_reference_label(numbers)}, paired by seed, in points where the figure is a share; "
        "**bold** where the interval leaves zero out, with no correction for how many there are."
    )
    yield ""


def _meanings() -> Iterator[str]:
    yield "## What the figures mean"
    yield ""
    yield from (f"- **{figure.label}**: {figure.meaning}" for figure in FIGURES)


def _reference_label(numbers: StudyNumbers) -> str:
    variants = [one for base in numbers.bases for one in base.variants]
    return next((one.label for one in variants if one.name == numbers.reference), numbers.reference)


def _base(numbers: StudyNumbers, base: BaseNumbers, plots: dict[tuple[str, Family], list[str]]) -> Iterator[str]:
    yield f"## {base.name}"
    yield ""
    told = f"Recipe `{base.recipe}`; budget {_budget(base.budget)}. Threshold {base.threshold:.0%} training success; "
    told += f"early learning: the first {base.early_steps:,.0f} environment steps."
    if base.before is not None:
        told += f" Held-out success before training: {_value(base.before.mean, Unit.SHARE)}."
    yield told
    yield ""
    for family, title in _TITLES.items():
        variants = base.family(family, numbers.reference)
        if any(variant.runs for variant in variants):
            yield from _family(numbers, base, title, variants, plots.get((base.name, family), []))
    if base.missing:
        yield "Not in these figures:"
        yield ""
        for run in base.missing:
            yield f"- `{run.run}` is {run.state.value}{_why(run)}"
        yield ""


def _why(run: MissingRun) -> str:
    """The beginning of a failure's message, which goes on with a log, and where the whole stands."""
    if run.reason is None:
        return ""
    return f": {run.reason.splitlines()[0].split('; ')[0]} ([all of it](../runs/{run.run}/attempts.json))"


def _budget(budget: Budget) -> str:
    limits = {
        "environment steps": budget.environment_steps,
        "training steps": budget.training_steps,
        "seconds": budget.seconds,
    }
    return ", ".join(f"{limit:,.0f} {name}" for name, limit in limits.items() if limit is not None)


def _family(
    numbers: StudyNumbers, base: BaseNumbers, title: str, variants: Sequence[VariantNumbers], plots: Sequence[str]
) -> Iterator[str]:
    yield f"### {title}, {base.name}"
    yield ""
    for topic in Topic:
        figures = [
            figure
            for figure in FIGURES
            if figure.topic is topic and any(figure.key in variant.figures for variant in variants)
        ]
        yield from _table(
            topic.value, figures, variants, lambda variant, figure: _told(variant.figures, figure, len(variant.runs))
        )
    others = [variant for variant in variants if variant.differences]
    if others:
        compared = [figure for figure in FIGURES if figure.topic is Topic.OUTCOME or figure.key in _SMOOTHNESS]
        figures = [one for one in compared if any(one.key in variant.differences for variant in others)]
        title = f"Less {_reference_label(numbers)}'s"
        yield from _table(title, figures, others, lambda variant, figure: _difference(variant.differences, figure))
    for plot in plots:
        yield f"![{plot.removesuffix('.png')}]({plot})"
        yield ""


_SMOOTHNESS = {"grad_norm", "grad_norm_spread", "kl_old_new"}


def _table(
    title: str,
    figures: Sequence[Figure],
    variants: Sequence[VariantNumbers],
    cell: Callable[[VariantNumbers, Figure], str],
) -> Iterator[str]:
    yield f"| {title} | runs | " + " | ".join(figure.label.replace("|", "\\|") for figure in figures) + " |"
    yield "| --- | --- |" + " ---: |" * len(figures)
    for variant in variants:
        cells = " | ".join(cell(variant, figure) for figure in figures)
        yield f"| {variant.label} | {_links(variant)} | {cells} |"
    yield ""


def _links(variant: VariantNumbers) -> str:
    seeds = (f"[{run.rsplit('-', 1)[1]}](../runs/{run})" for run in variant.runs)
    return f"{len(variant.runs)}: {' '.join(seeds)}" if variant.runs else "0"


def _told(figures: dict[str, Estimate], figure: Figure, runs: int) -> str:
    """A figure's mean and interval; how many runs have it, where it isn't all."""
    found = figures.get(figure.key)
    if found is None:
        return f"not reached (0 of {runs})" if figure.key == "steps_to_threshold" and runs else _NOTHING
    if found.n < runs:
        return f"{_value(found.mean, figure.unit)} ({found.n} of {runs})"
    return _with_interval(found, figure.unit, _value(found.mean, figure.unit))


def _difference(differences: dict[str, Estimate], figure: Figure) -> str:
    found = differences.get(figure.key)
    if found is None:
        return _NOTHING
    sign = "+" if found.mean >= 0 else "−"
    told = _with_interval(found, figure.unit, f"{sign}{_value(abs(found.mean), figure.unit)}").replace("%", "")
    return f"**{told}**" if found.differs_from_zero else told


def _with_interval(found: Estimate, unit: Unit, mean: str) -> str:
    return mean if found.half_width is None else f"{mean} ± {_value(found.half_width, unit)}"


def _value(value: float, unit: Unit) -> str:
    match unit:
        case Unit.SHARE:
            return f"{100 * value:.1f}%"
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.SECONDS:
            return f"{value:.0f}"
        case Unit.NUMBER:
            return f"{value:#.3g}".rstrip(".")
