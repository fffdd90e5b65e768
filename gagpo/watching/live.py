"""A watched job as a picture that stays in place: for a terminal."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gagpo.training.records import EpisodeMetrics
from gagpo.watching.lines import event_line, first_line
from gagpo.watching.standing import Standing, TrainedStep, duration
from shared.schemas.job import JobEvent, JobState

_BAR_WIDTH = 40
_ABOVE = frozenset({"note", "evaluation", "evaluation-failed"})
"""Kinds of events that are told in lines above the picture."""
_STYLES = {
    JobState.QUEUED: "yellow",
    JobState.RUNNING: "cyan",
    JobState.INTERRUPTED: "yellow",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "magenta",
}


class LiveView:
    """State, step bar, success of each environment, the optimizer's health, and the time left."""

    def __init__(self, console: Console, standing: Standing) -> None:
        """Draws on ``console``, a terminal, from the start of the ``with`` block on."""
        self._standing = standing
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=4)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture as it is."""
        self._live.stop()

    def show(self, event: JobEvent, standing: Standing) -> None:
        """The picture follows the standing by itself; what a later state would hide stays above it."""
        passing = event.kind == "state" and standing.reason and not standing.state.over
        if (passing or event.kind in _ABOVE) and (line := event_line(event, standing)) is not None:
            self._live.console.print(line, markup=False)

    def _draw(self) -> RenderableType:
        return draw(self._standing)


def draw(standing: Standing) -> RenderableType:
    """The picture of a job."""
    parts: list[RenderableType] = [_headline(standing), _bars(standing)]
    if standing.latest is not None:
        parts += [_environments(standing.latest), _health(standing.latest)]
    return Group(*parts)


def _headline(standing: Standing) -> Text:
    line = Text.assemble((standing.job, "bold"), "  ", (standing.state.value, _STYLES[standing.state]))
    if standing.reason:
        line.append(f"  {first_line(standing.reason)}")
    if standing.step_s is not None:
        line.append(f"  {duration(standing.step_s)} a step")
    if standing.left_s:
        line.append(f"  {duration(standing.left_s)} left")
    return line


def _bars(standing: Standing) -> Table:
    grid = Table.grid(padding=(0, 1))
    rows = [("steps", standing.done, standing.steps)]
    if standing.state is JobState.RUNNING and standing.done < standing.steps:
        rows.append(("groups", standing.groups_made, standing.groups_per_step))
    for name, done, total in rows:
        bar = ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH)
        grid.add_row(name, bar, f"{done}/{total}")
    return grid


def _environments(step: TrainedStep) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("success", "score", "length", "reward"):
        table.add_column(heading, justify="right")
    for name, own in step.environments.items():
        table.add_row(name, *_figures(own))
    if len(step.environments) > 1:
        table.add_row("all", *_figures(step))
    return table


def _figures(own: EpisodeMetrics) -> tuple[str, str, str, str]:
    score = f"{own.mean_score:.3f}" if own.graded else ""
    return f"{own.success_rate:.1%}", score, f"{own.mean_episode_length:.1f}", f"{own.mean_reward:.2f}"


def _health(step: TrainedStep) -> Text:
    return Text(
        f"loss {step.loss:.4f}  KL {step.kl_reference:.4f}  clip {step.clip_fraction:.1%}  "
        f"entropy {step.entropy:.3f}  grad norm {step.grad_norm:.3f}  "
        f"{step.tokens_per_s_generated:,.0f} tokens/s  staleness {step.staleness_mean:.1f}"
    )
