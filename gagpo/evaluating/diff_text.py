"""A comparison in words."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from gagpo.evaluating.diff import PairedFigure, PairedTasks, ReportDiff
from gagpo.evaluating.report_text import TextTable
from shared.files import write_atomically

_LISTED = 20
"""Flips that a terminal shows; the files have all."""


def diff_tables(diff: ReportDiff) -> Iterator[RenderableType]:
    """For a console."""
    yield from map(Text, _head(diff))
    for name in diff.environments:
        yield Text(f"\n{name}")
        yield comparison_table(diff, name).rich()
    flips = flip_table(diff, _LISTED)
    if flips.rows:
        more = len(diff.flips) - len(flips.rows)
        yield Text("\nTasks that flipped" + (f" ({more} more with --out)" if more > 0 else ""))
        yield flips.rich()


def diff_markdown(diff: ReportDiff) -> str:
    """The whole ``diff.md``."""
    lines = ["# A and B on the same tasks", ""]
    lines += [f"- {line}" for line in _head(diff)]
    for name in diff.environments:
        lines += ["", f"## {name}", "", *comparison_table(diff, name).markdown()]
    lines += ["## Tasks that flipped", "", *flip_table(diff, len(diff.flips)).markdown()]
    lines.append(
        "Differences are B less A, with 95% intervals by paired bootstrap over tasks; "
        "`docs/evaluation.md` tells of the tests."
    )
    return "\n".join([*lines, ""])


def write_diff(diff: ReportDiff, folder: Path) -> None:
    """``diff.json`` and ``diff.md``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "diff.json", f"{diff.model_dump_json(indent=2)}\n".encode())
    write_atomically(folder / "diff.md", diff_markdown(diff).encode())


def _head(diff: ReportDiff) -> Iterator[str]:
    yield f"A: {diff.one}"
    yield f"B: {diff.other}"
    for field, (one, other) in diff.conditions.items():
        yield f"Not alike: {field} is {one} in A, {other} in B"
    if diff.left_out:
        yield f"{diff.left_out} tasks that only one of them has are left out"


def comparison_table(diff: ReportDiff, environment: str) -> TextTable:
    """Success, and score where it is graded, of each kind of task and of all."""
    whole = diff.environments[environment]
    rows = [row for kind, tasks in diff.task_types[environment].items() for row in _rows(kind or "–", tasks)] + _rows(
        "all", whole
    )
    return TextTable(["task type", "tasks", "", "A", "B", "B − A", "95%", "+", "−", "p"], rows)


def _rows(name: str, tasks: PairedTasks) -> list[list[str]]:
    rows = [[name, str(tasks.tasks), "success", *_cells(tasks.success, percent=True)]]
    if tasks.score is not None:
        rows.append(["", "", "score", *_cells(tasks.score, percent=False)])
    return rows


def _cells(figure: PairedFigure, percent: bool) -> list[str]:
    values = [figure.one, figure.other, figure.difference, figure.interval.low, figure.interval.high]
    if percent:
        one, other, *change = [f"{value:.1%}" for value in values[:2]] + [f"{100 * value:+.1f}" for value in values[2:]]
    else:
        one, other, *change = [f"{value:.3f}" for value in values[:2]] + [f"{value:+.3f}" for value in values[2:]]
    difference, low, high = change
    test = figure.test
    return [one, other, difference, f"{low} to {high}", str(test.better), str(test.worse), _p(test.p)]


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def flip_table(diff: ReportDiff, most: int) -> TextTable:
    """The tasks whose share of won episodes differs, the largest losses first."""
    flips = sorted(diff.flips, key=lambda flip: flip.other - flip.one)[:most]
    rows = [[flip.environment, flip.task_id, flip.task_type, f"{flip.one:.0%}", f"{flip.other:.0%}"] for flip in flips]
    return TextTable(["environment", "task", "task type", "A won", "B won"], rows)
