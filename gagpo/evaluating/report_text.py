"""A report in words: tables for Markdown and for the terminal, made of the same rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from shared.schemas.evaluation import EpisodeFigures, EvaluationReport, EvaluationSpec, Interval, PassAtK

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> Iterator[str]:
        """Its lines, and an empty one."""
        yield _row(self.header)
        yield _row(["---"] * len(self.header))
        yield from map(_row, self.rows)
        yield ""

    def rich(self) -> Table:
        """For a console."""
        table = Table(box=None, pad_edge=False, show_header=any(self.header))
        for name in self.header:
            table.add_column(name, overflow="fold")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table


def report_markdown(report: EvaluationReport) -> str:
    """The whole ``report.md``."""
    lines = [f"# {report.spec.policy.label if report.spec else 'Evaluation'}", ""]
    if report.spec is not None:
        lines += [*_played(report.spec), ""]
    for name, figures in report.environments.items():
        lines += [f"## {name}, {figures.split}", "", *task_type_table(figures).markdown()]
        lines += figure_table(figures).markdown()
    lines.append("Intervals are at 95%. `docs/evaluation.md` says how each figure is made.")
    return "\n".join([*lines, ""])


def _played(spec: EvaluationSpec) -> Iterator[str]:
    episodes = "one episode" if spec.samples == 1 else f"{spec.samples} episodes"
    yield f"Seed {spec.seed}, temperature {spec.temperature:g}, {episodes} of each task."
    for environment in spec.environments:
        settings = environment.settings
        options = ", ".join(f"{name} = {value!r}" for name, value in settings.options.items()) or "none"
        yield (
            f"{settings.name}: {environment.tasks} tasks, at most {settings.max_steps} steps, prompt "
            f"`{settings.prompt.template}`, options {options}, data `{(environment.data_digest or '')[:12]}`."
        )


def task_type_table(figures: EpisodeFigures) -> TextTable:
    """Success and score of each kind of task, and of all."""
    graded = figures.graded
    rows = []
    for name, kind in figures.task_types.items():
        success = _rate(kind.won / kind.episodes, kind.success_interval)
        score = [_number(kind.mean_score, kind.score_interval)] if graded else []
        rows.append([name or NOTHING, str(kind.tasks), str(kind.episodes), success, *score, _steps(kind.mean_steps)])
    success = _rate(figures.success_rate, figures.success_interval)
    score = [_number(figures.mean_score, figures.score_interval)] if graded else []
    rows.append(["all", str(figures.tasks), str(figures.episodes), success, *score, _steps(figures.mean_steps)])
    return TextTable(["task type", "tasks", "episodes", "success", *(["score"] if graded else []), "steps"], rows)


def figure_table(figures: EpisodeFigures) -> TextTable:
    """Everything else."""
    rows = [[f"pass@{k}", _rate(chance.rate, chance.interval)] for k, chance in _shown(figures).items()]
    rows.append(["steps of won episodes", _steps(figures.mean_steps_won)])
    if (optimum := figures.optimum) is not None:
        told = f"{_number(optimum.mean_ratio, optimum.interval)} × the optimum in {optimum.episodes} won episodes"
        rows.append(["steps against the optimum", f"{told}, {optimum.optimal_share:.1%} in the optimum"])
    rows.append(["actions not understood", f"{figures.invalid_action_rate:.1%}"])
    rows.append(["episodes cut by a limit", f"{figures.truncated_rate:.1%}"])
    if figures.tokens:
        rows.append(["tokens sampled, an episode", f"{figures.tokens / figures.episodes:.1f}"])
        rows.append(["tokens of prompts, an episode", f"{figures.prompt_tokens / figures.episodes:.1f}"])
    if figures.failed:
        rows.append(["episodes that could not be finished", str(figures.failed)])
    return TextTable(["", ""], rows)


def _shown(figures: EpisodeFigures) -> dict[int, PassAtK]:
    """pass@k at powers of two and at the last k; pass@1 of single episodes is the success rate."""
    most = max(figures.pass_at, default=0)
    if most <= 1:
        return {}
    return {k: chance for k, chance in figures.pass_at.items() if k & (k - 1) == 0 or k == most}


def _rate(rate: float, interval: Interval | None) -> str:
    return f"{rate:.1%}" + (f" ({interval.low:.1%}–{interval.high:.1%})" if interval else "")


def _number(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.3f}" + (f" ({interval.low:.3f}–{interval.high:.3f})" if interval else "")


def _steps(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
