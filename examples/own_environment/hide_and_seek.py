"""An environment of one's own in one file: something is hidden in a room, where such things are usually kept.

It speaks ALFWorld's sentences, so that the small policy in ``configs/small-policy`` can read it. What it does not know
is where things are kept: that it learns.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from services.env_server.environments.base import (
    InvalidOptionError,
    NumberedTasks,
    Observation,
    StepOutcome,
    UnknownSplitError,
    UnknownTaskError,
)
from shared.schemas.environment import EnvironmentDescription, InfoValue, StateKeyKind

KEPT_IN = {"egg": "fridge", "pillow": "sofa", "soapbar": "bathtub", "book": "shelf", "pan": "stoveburner"}
"""Thing → the place where it always is."""
PLACES = (*KEPT_IN.values(), "desk", "bed", "dresser", "safe", "cabinet")
PLACES_IN_A_ROOM = 6
SPLITS = {"train": NumberedTasks("room-", 0, 200), "valid": NumberedTasks("room-", 200, 300)}


@dataclass
class HideAndSeek:
    """One live episode. Everything random comes from the task's number, so that it can be played again."""

    thing: str
    places: tuple[str, ...]
    at: str = ""

    def reset(self) -> Observation:
        """Back to the middle of the room."""
        self.at = ""
        seen = ", ".join(f"a {place} 1" for place in self.places)
        return self._observation(f"You are in the middle of a room. Looking quickly around you, you see {seen}.")

    def step(self, action: str) -> StepOutcome:
        """Go somewhere; what makes no sense is a step as well."""
        target = action.removeprefix("go to ").removesuffix(" 1")
        if action != f"go to {target} 1" or target not in self.places:
            return StepOutcome(self._observation("Nothing happens."), 0.0, terminated=False, valid_action=False)
        self.at = target
        there = f"a {self.thing} 1" if self.found else "nothing"
        said = self._observation(f"On the {target} 1, you see {there}.")
        return StepOutcome(said, float(self.found), terminated=self.found, valid_action=True)

    def clone(self) -> Self:
        """An independent copy."""
        return replace(self)

    def state_key(self, kind: StateKeyKind) -> str:
        """Where one stands is all there is to a state, whichever kind is asked for."""
        return self.at

    @property
    def found(self) -> bool:
        """Whether the thing is here."""
        return self.at == KEPT_IN[self.thing]

    def _observation(self, text: str) -> Observation:
        goal = f"Your task is to: find the {self.thing}."
        info: dict[str, InfoValue] = {"won": self.found, "task_type": self.thing, "goal": goal}
        return Observation(text, [f"go to {place} 1" for place in self.places], info)


class HideAndSeekFamily:
    """All rooms."""

    def describe(self) -> EnvironmentDescription:
        """What ``GET /v1/environments`` tells."""
        return EnvironmentDescription(
            name="hide-and-seek",
            splits={split: len(tasks) for split, tasks in SPLITS.items()},
            max_steps=4,
            action_format="go to <place>",
            options=[],
            versions={"hide-and-seek": "1"},
            data_digest="1" * 64,  # of the tasks' data; here the version says it all
        )

    def tasks(self, split: str) -> Sequence[str]:
        """Their ids."""
        if split not in SPLITS:
            raise UnknownSplitError(f"split {split!r} is none of {sorted(SPLITS)}")
        return SPLITS[split]

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> HideAndSeek:
        """The episode of a room, not yet begun."""
        for option in options:
            raise InvalidOptionError(option, f"options.{option}: hide-and-seek has no options")
        if all(task_id not in tasks for tasks in SPLITS.values()):
            raise UnknownTaskError(f"task_id: there is no room {task_id!r}; GET /v1/environments/hide-and-seek/tasks")
        dice = random.Random(task_id)
        thing = dice.choice(sorted(KEPT_IN))
        others = dice.sample([place for place in PLACES if place != KEPT_IN[thing]], PLACES_IN_A_ROOM - 1)
        return HideAndSeek(thing, tuple(dice.sample([KEPT_IN[thing], *others], PLACES_IN_A_ROOM)))
