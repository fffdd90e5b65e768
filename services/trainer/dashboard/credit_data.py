"""A group and its credit for the credit viewer: the cells of its picture, filters, tables. Nothing here draws."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from services.trainer.server.credit_answers import group_credit
from services.trainer.server.credit_store import CreditStore
from shared.credit_record import Bools, CreditedGroup, CreditNumbers, Floats, Ints, StoredRecord, credit_rows
from shared.schemas.credit import Cell, EpisodeRow, GroupCredit
from shared.trajectory import EpisodeEnd, Group

LEVELS = 6
"""Shades of each sign."""

LARGEST_SHARE = 0.1
"""Share of a group's steps that count as those with the largest |Â|."""


class EpisodeFilter(StrEnum):
    """Which rows are shown."""

    ALL = "all"
    WON = "successes"
    LOST = "failures"


class StepFilter(StrEnum):
    """Which cells are shown."""

    ALL = "all"
    LARGEST = "largest |Â|"
    SINGLE = "singletons"
    SHARED = "shared states"
    CLIPPED = "clipped"
    INVALID = "not understood"


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a step is in its group."""

    episode: int
    """From 0."""
    turn: int
    """Place within the episode, from 0."""

    def __str__(self) -> str:
        """As addresses and the page's cells have it."""
        return f"{self.episode}.{self.turn}"


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where each of a group's S steps is. Both arrays of shape (S,)."""

    episodes: Ints
    turns: Ints

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Places":
        """From the steps of each episode."""
        turns = [np.arange(length) for length in lengths]
        return cls(np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.zeros(0, np.int64), *turns]))

    def row(self, spot: Spot) -> int | None:
        """Number of a step among the S; None where there is none."""
        found = np.flatnonzero((self.episodes == spot.episode) & (self.turns == spot.turn))
        return int(found[0]) if len(found) else None


@dataclass(frozen=True, slots=True)
class GridCell:
    """One step in the picture."""

    text: str
    """Â in as few characters as will do, with its sign."""
    level: int
    """Shade, from −`LEVELS` to `LEVELS`; 0 for exactly 0 alone."""
    state: int
    label: str
    """What a screen reader says, and what hovering shows."""
    filters: tuple[StepFilter, ...]
    """Those that show it."""


@dataclass(frozen=True, slots=True)
class GridRow:
    """One episode in the picture."""

    won: bool
    outcome: str
    cells: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The picture of a group."""

    rows: tuple[GridRow, ...]
    limit: float
    """The largest |Â|: where the darkest shade ends."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenedGroup:
    """One group of a record, unpacked."""

    record: StoredRecord
    place: int
    """Its place in the record."""
    group: Group
    picture: GroupCredit

    @property
    def credit(self) -> CreditNumbers:
        """The numbers of its S steps."""
        return self.record.groups[self.place].credit

    @property
    def places(self) -> Places:
        """Where each step is."""
        return Places.of(self.record.groups[self.place].heading.lengths)


def place_of(record: StoredRecord, index: int | None) -> int:
    """Where the group of that index is; where there is none, the first with both outcomes, else the first.

    Raises `ValueError` for a record without groups.
    """
    headings = [one.heading for one in record.groups]
    if not headings:
        raise ValueError(f"the record of step {record.step} has no groups")
    named = [place for place, heading in enumerate(headings) if heading.index == index]
    mixed = [place for place, heading in enumerate(headings) if 0 < sum(heading.won) < len(heading.won)]
    return (named or mixed or [0])[0]


def open_group(store: CreditStore, record: StoredRecord, place: int) -> OpenedGroup:
    """The group at ``place`` of a record. Raises `CreditRecordError`."""
    group = store.group(record.groups[place])
    return OpenedGroup(record, place, group, group_credit(record, place, group))


def other_situations(opened: OpenedGroup, row: int) -> int:
    """How many steps of the group are in the state of its ``row``-th step though they are known to be in another one.

    A state key made of text may take different situations for the same.
    """
    steps = [step for episode in opened.group.episodes for step in episode.steps]
    same = np.flatnonzero(opened.credit.states == opened.credit.states[row]).tolist()
    truth = steps[row].true_state
    return sum(bool(truth) and steps[place].true_state not in ("", truth) for place in same)


def grid(opened: OpenedGroup, advantages: Floats) -> Grid:
    """The picture with these ``advantages``, of shape (S,): the recorded ones, or others."""
    limit = float(np.abs(advantages).max(initial=0.0))
    levels, large = shades(advantages, limit).tolist(), largest(advantages).tolist()
    states, numbers = opened.credit.states.tolist(), advantages.tolist()
    rows, place = [], 0
    for row in opened.picture.rows:
        cells = []
        for turn, cell in enumerate(row.cells):
            filters = _filters(cell, large[place])
            label = _label(row.episode, turn, cell, numbers[place])
            cells.append(GridCell(short(numbers[place]), levels[place], states[place], label, filters))
            place += 1
        rows.append(GridRow(row.won, outcome(row), tuple(cells)))
    return Grid(tuple(rows), limit)


def shades(advantages: Floats, limit: float) -> Ints:
    """The shade of each advantage, symmetrical around 0; the smallest one already has its sign's. Shape (S,)."""
    if limit == 0.0:
        return np.zeros(len(advantages), np.int64)
    steps = np.ceil(np.abs(advantages) / limit * LEVELS).clip(0, LEVELS)
    found: Ints = (np.sign(advantages) * steps).astype(np.int64)
    return found


def largest(advantages: Floats, share: float = LARGEST_SHARE) -> Bools:
    """Which steps have the largest |Â|: ``share`` of them, at least one, and their equals; never 0. Shape (S,)."""
    sizes = np.abs(advantages)
    if not sizes.any():
        return np.zeros(len(sizes), np.bool_)
    place = max(int(len(sizes) * share), 1) - 1
    threshold = np.sort(sizes)[::-1][place]
    found: Bools = (sizes >= threshold) & (sizes > 0)
    return found


def outcome(row: EpisodeRow) -> str:
    """How an episode ended, in a word or two."""
    if row.won:
        return "won"
    ends = {
        EpisodeEnd.TERMINATED: "lost",
        EpisodeEnd.STEP_LIMIT: "out of steps",
        EpisodeEnd.PROMPT_LIMIT: "prompt too long",
        EpisodeEnd.GAVE_UP: "gave up",
    }
    return ends[row.end]


def short(value: float) -> str:
    """A signed number in at most four characters: +0.4, −12."""
    if value == 0.0:
        return "0"
    size = abs(value)
    sign = "+" if value > 0 else "−"
    if size >= 9.95:
        return f"{sign}{size:.0f}" if size < 999.5 else f"{sign}∞"
    if size < 0.05:
        return f"{sign}0"
    return f"{sign}{size:.1f}".replace("+0.", "+.").replace("−0.", "−.")


def signed(value: float) -> str:
    """A number with its sign and two decimals; 0 without."""
    return "0" if value == 0.0 else f"{value:+.2f}".replace("-", "−")


def plain(value: float) -> str:
    """A number with two decimals."""
    return f"{value:.2f}".replace("-", "−")


def group_csv(opened: OpenedGroup, others: Mapping[str, Floats]) -> str:
    """One line a step: what it was, every number of its credit, and further columns of shape (S,)."""
    columns = {name: array.tolist() for name, array in others.items()}
    rows = [
        {**row, **{name: column[place] for name, column in columns.items()}}
        for place, row in enumerate(credit_rows([CreditedGroup(opened.group, opened.credit)]))
    ]
    written = io.StringIO()
    writer = csv.DictWriter(written, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _filters(cell: Cell, large: bool) -> tuple[StepFilter, ...]:
    shown = {
        StepFilter.ALL: True,
        StepFilter.LARGEST: large,
        StepFilter.SINGLE: cell.siblings == 0,
        StepFilter.SHARED: cell.siblings > 0,
        StepFilter.CLIPPED: cell.clipped,
        StepFilter.INVALID: not cell.valid_action,
    }
    return tuple(name for name, fits in shown.items() if fits)


def _label(episode: int, turn: int, cell: Cell, advantage: float) -> str:
    remarks = ["no siblings"] if cell.siblings == 0 else []
    remarks += ["clipped"] if cell.clipped else []
    remarks += [] if cell.valid_action else ["not understood"]
    return ", ".join([f"Episode {episode}, step {turn}: {cell.action}. Advantage {signed(advantage)}", *remarks])
