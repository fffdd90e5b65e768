"""How ``gagpo job credit`` writes a training step's credit for people."""

from collections.abc import Iterable, Sequence

from shared.schemas.credit import Cell, EpisodeRow, GroupCredit, GroupSummary, StepCredit

_ACTION_WIDTH = 44


def step_text(credit: StepCredit, kept: Sequence[int]) -> str:
    """A line for each group of a training step, under one that says which step it is."""
    heading = f"training step {credit.step}, {credit.algorithm}; kept are {kept[0]} to {kept[-1]}"
    rows = [("group", "task", "won", "steps", "trained", "clipped", "largest |Â|", "alone")]
    for group in credit.groups:
        rows.append(
            (
                str(group.index),
                _task(group),
                f"{group.won}/{group.episodes}",
                str(group.steps),
                str(group.trained_steps),
                str(group.clipped_steps),
                f"{group.largest_advantage:.2f}",
                f"{group.singleton_share:.0%}",
            )
        )
    return "\n".join([heading, *_columns(rows)])


def group_text(credit: GroupCredit) -> str:
    """Every step of every episode of a group."""
    summary = credit.summary
    lines = [
        f"training step {credit.step}, {credit.algorithm}, group {summary.index}: {_task(summary)}, "
        f"{summary.won} of {summary.episodes} won"
    ]
    heading = ("step", "action", "r", "G", "V", "δ", "A", "Â", "ρ", "others here")
    table = [heading, *(row for episode in credit.rows for row in map(_cell, range(len(episode.cells)), episode.cells))]
    first, *rest = _columns(table)
    lines.append(first)
    for episode in credit.rows:
        lines += [_episode(episode), *rest[: len(episode.cells)]]
        rest = rest[len(episode.cells) :]
    return "\n".join(lines)


def _task(group: GroupSummary) -> str:
    return " ".join(part for part in (group.environment, group.task_type, group.task_id) if part)


def _episode(row: EpisodeRow) -> str:
    outcome = "won" if row.won else f"lost ({row.end.value})"
    optimum = "" if row.optimal_steps is None else f", {row.optimal_steps} would do"
    return f"episode {row.episode}: {outcome} in {len(row.cells)} steps{optimum}, rewards {row.total_reward:.2f}"


def _cell(turn: int, cell: Cell) -> tuple[str, ...]:
    action = cell.action if len(cell.action) <= _ACTION_WIDTH else cell.action[: _ACTION_WIDTH - 1] + "…"
    numbers = (cell.reward, cell.step_return, cell.value, cell.delta, cell.raw_advantage, cell.advantage)
    ratio = "–" if cell.ratio is None else f"{cell.ratio:.3f}" + (" clipped" if cell.clipped else "")
    return (str(turn), action, *(f"{number:.2f}" for number in numbers), ratio, str(cell.siblings))


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
