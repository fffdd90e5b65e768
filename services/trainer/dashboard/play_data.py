"""What the page for playing by hand shows: which task, which actions, how it stands and how it ended. Draws nothing."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from urllib.parse import urlencode

from services.trainer.dashboard.play_servers import Turn
from shared.schemas.environment import EnvironmentDescription, InfoValue, Observation, SessionRequest
from shared.shop_page import Buttons, Clickable, Line, Listed, page_lines

EXPERT = "expert"
"""The option with which an environment says what its expert would do."""

_LARGEST_INDEX = 10**9
_BLANK = re.compile(r"(?P<before>\w+[\[ ])<(?P<name>[^<>]+)>(?P<after>\]?)")
_CALL = re.compile(r"(?P<head>\w+)\[(?P<argument>.+)\]")
_BUTTON_MARKS = ("[button] ", "[clicked button] ")
_SCORE_PARTS = (
    ("kind of product", "r_type", None),
    ("attributes", "r_att", "w_att"),
    ("options", "r_option", "w_option"),
    ("price", "r_price", "w_price"),
)
"""Of WebShop's score: the share that was met, and its weight."""


class AddressError(ValueError):
    """The page's address names no task; the message says which field, and what it may be."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A task, as the address and the form name it."""

    environment: str
    split: str = ""
    index: int | None = None
    """Of the task in its split."""
    task_id: str = ""
    """Its id, which is enough without a split and an index."""

    @property
    def names_a_task(self) -> bool:
        """Whether there is something to open."""
        return bool(self.task_id) or self.index is not None

    @property
    def task(self) -> str:
        """What stands in the form's field: a number or an id."""
        return self.task_id or ("" if self.index is None else str(self.index))

    def address(self) -> str:
        """Of the page with this task."""
        query = {"environment": self.environment}
        if self.task_id:
            query["task"] = self.task_id
        else:
            query["split"] = self.split
            query["index"] = self.task
        return "/play?" + urlencode(query)

    def request(self, described: EnvironmentDescription) -> SessionRequest:
        """What opens a session of it, with the expert at hand where there is one."""
        options: dict[str, InfoValue] = {EXPERT: True} if has_expert(described) else {}
        if self.task_id:
            return SessionRequest(environment=self.environment, task_id=self.task_id, options=options)
        return SessionRequest(environment=self.environment, split=self.split, index=self.index, options=options)


def chosen_by(query: Mapping[str, str], served: Mapping[str, EnvironmentDescription]) -> Choice:
    """What an address names, with the usual for what it leaves open. Raises `AddressError`."""
    name = query.get("environment", next(iter(served), ""))
    described = served.get(name)
    if described is None:
        raise AddressError(f"environment = {name!r}: the env server has {', '.join(served) or 'none'}.")
    if task_id := query.get("task", ""):
        return Choice(name, usual_split(described), task_id=task_id)
    split = query.get("split", usual_split(described))
    if split not in filled_splits(described):
        splits = ", ".join(filled_splits(described)) or "none with tasks"
        raise AddressError(f"split = {split!r}: {name} has {splits}.")
    asked = query.get("index", "")
    index = number(asked)
    if asked and index is None:
        raise AddressError(f"index = {asked!r}: must be a task's number, from 0 to {described.splits[split] - 1}.")
    return Choice(name, split, index)


def number(text: str) -> int | None:
    """A task's number; None for anything else."""
    digits = text.strip()
    plain = digits.isascii() and digits.isdigit() and len(digits) < 12
    return int(digits) if plain and int(digits) < _LARGEST_INDEX else None


def named(environment: str, split: str, task: str) -> Choice:
    """The task of the form's fields: ``task`` is a number, or else an id."""
    index = number(task)
    return Choice(environment, split, index) if index is not None else Choice(environment, split, task_id=task.strip())


def another(described: EnvironmentDescription, split: str, than: int | None) -> Choice:
    """Any task of the split, another one where there are several."""
    size = described.splits[split]
    others = [index for index in random.sample(range(size), min(2, size)) if index != than]
    return Choice(described.name, split, others[0] if others else than)


def filled_splits(described: EnvironmentDescription) -> dict[str, int]:
    """The splits that have tasks, with how many."""
    return {split: size for split, size in described.splits.items() if size > 0}


def usual_split(described: EnvironmentDescription) -> str:
    """The first split held out for validation, else the first; empty without any task."""
    splits = filled_splits(described)
    return next((split for split in splits if "valid" in split), next(iter(splits), ""))


def has_expert(described: EnvironmentDescription) -> bool:
    """Whether the environment can say what its expert would do."""
    return any(option.name == EXPERT for option in described.options)


@dataclass(slots=True)
class Game:
    """One episode, as far as it was played."""

    described: EnvironmentDescription
    first: Observation
    turns: list[Turn] = field(default_factory=list)

    @property
    def now(self) -> Observation:
        """What is seen."""
        return self.turns[-1].result if self.turns else self.first

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.turns) and (self.turns[-1].result.terminated or self.turns[-1].result.truncated)

    @property
    def goal(self) -> str:
        """What is to be done, where the environment says so apart from the observation."""
        return _text(self.first.info.get("goal"))

    @property
    def standing(self) -> list[tuple[str, str]]:
        """Steps, rewards and misunderstandings so far."""
        told = [
            ("Steps", f"{self.now.step_index} of {self.described.max_steps}"),
            ("Return", amount(sum(turn.result.reward for turn in self.turns))),
        ]
        if misses := sum(not understood(turn) for turn in self.turns):
            told.append(("Not understood", str(misses)))
        return told

    @property
    def hint(self) -> str | None:
        """What the expert would do now; None where it has nothing to say."""
        return _text(self.now.info.get("expert_action")) or None


class Outcome(StrEnum):
    """How well an episode ended."""

    WON = "won"
    LOST = "lost"
    CUT = "cut off"
    """By the step limit."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an episode ended."""

    outcome: Outcome
    title: str
    detail: str
    parts: list[tuple[str, str]]
    """Of the score, where it has any."""


def ending(game: Game) -> Ending:
    """Of a game that is over."""
    result = game.turns[-1].result
    steps = f"{result.step_index} step{'' if result.step_index == 1 else 's'}"
    optimal = result.info.get("optimal_steps")
    expert = f"The expert needs {optimal}." if isinstance(optimal, int) else ""
    score = result.info.get("score")
    told = [f"Score {_share(score)}."] if isinstance(score, int | float) else []
    detail = " ".join(part for part in [*told, expert] if part)
    if result.info.get("won"):
        return Ending(Outcome.WON, f"Won in {steps}", detail, _score_parts(result.info))
    if result.terminated:
        return Ending(Outcome.LOST, f"Over after {steps}, not won", detail, _score_parts(result.info))
    return Ending(Outcome.CUT, f"Cut off after {steps}, the most that there are", detail, [])


def understood(turn: Turn) -> bool:
    """Whether the environment knew what the action means."""
    return turn.result.info.get("valid_action") is not False


def amount(value: float) -> str:
    """A sum of rewards: ``0``, ``1``, ``−0.3``."""
    return f"{round(value, 6):g}".replace("-", "−")


@dataclass(frozen=True, slots=True)
class Blank:
    """An admissible action with a part that is left open, such as ``search[<query>]``."""

    before: str
    name: str
    after: str

    def filled(self, words: str) -> str:
        """The action with these words."""
        return f"{self.before}{words}{self.after}"


@dataclass(frozen=True, slots=True)
class ActionGroup:
    """Actions that begin alike, or that stand alone (``name`` is empty then)."""

    name: str
    actions: list[tuple[str, str]]
    """What is shown of each, and the whole."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What can be done, in three kinds."""

    blanks: list[Blank]
    page: list[Line] | None
    """The page with its buttons, for an observation that marks some; else the observation itself is shown."""
    clicks: list[str]
    """The actions of the page's buttons, by their numbers from 1."""
    groups: list[ActionGroup]
    """All other actions."""


def offered(seen: Observation) -> Offered:
    """The admissible actions, as a person meets them."""
    blanks = [blank for action in seen.admissible_actions if (blank := _blank(action)) is not None]
    rest = [action for action in seen.admissible_actions if _blank(action) is None]
    clicks = {match["argument"]: action for action in rest if (match := _CALL.fullmatch(action)) is not None}
    if not any(mark in seen.observation for mark in _BUTTON_MARKS):
        return Offered(blanks, None, [], grouped(rest))
    page, numbered = page_lines(seen.observation, list(clicks)), list(clicks.values())
    on_page = {numbered[button.number - 1] for line in page for button in buttons_of(line) if button.number is not None}
    return Offered(blanks, page, numbered, grouped([action for action in rest if action not in on_page]))


def buttons_of(line: Line) -> list[Clickable]:
    """The buttons on a line of a page."""
    match line:
        case Buttons(buttons):
            return buttons
        case Listed(button):
            return [button]
        case _:
            return []


def grouped(actions: Sequence[str]) -> list[ActionGroup]:
    """Actions by their first words, the small groups first; those that begin as no other does stand together."""
    by_head: dict[str, list[str]] = {}
    for action in actions:
        by_head.setdefault(action.split(" ", 1)[0], []).append(action)
    alone = [found[0] for found in by_head.values() if len(found) == 1]
    groups = [_group(found) for found in by_head.values() if len(found) > 1]
    groups.sort(key=lambda group: len(group.actions))
    return ([ActionGroup("", [(action, action) for action in alone])] if alone else []) + groups


def matches(action: str, typed: str) -> bool:
    """Whether every word that was typed is in the action, as far as it was typed."""
    return all(word in action.lower() for word in typed.lower().split())


def _group(actions: list[str]) -> ActionGroup:
    words = [action.split(" ") for action in actions]
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False)))
    shared = min([shared, *(len(each) - 1 for each in words)])  # something of each is left to be shown
    if shared == 0:
        return ActionGroup(words[0][0], [(action, action) for action in actions])
    name = " ".join(words[0][:shared])
    return ActionGroup(name, [(action[len(name) + 1 :], action) for action in actions])


def _blank(action: str) -> Blank | None:
    found = _BLANK.fullmatch(action)
    return None if found is None else Blank(found["before"], found["name"], found["after"])


def _score_parts(info: Mapping[str, InfoValue]) -> list[tuple[str, str]]:
    found = []
    for name, met, weight in _SCORE_PARTS:
        share, weighs = info.get(met), info.get(weight) if weight else None
        if share is not None:
            counts = f", counts for {100 * weighs:.0f}%" if isinstance(weighs, int | float) else ""
            found.append((name, f"{_share(share)}{counts}"))
    return found


def _share(value: InfoValue) -> str:
    return f"{100 * value:.0f}%" if isinstance(value, int | float) else "–"


def _text(value: InfoValue) -> str:
    return value if isinstance(value, str) else ""
