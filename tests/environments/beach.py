"""A beach with a coin in the sand: the smallest environment that grades its episodes instead of only winning them.

Walk ``north`` or ``south``, then ``take coin`` once: the nearer you dig, the better the score. It shares the maze's
words, so that one policy plays both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from services.env_server.environments.base import (
    InvalidOptionError,
    Observation,
    StepOutcome,
    UnknownSplitError,
    UnknownTaskError,
)
from shared.schemas.environment import EnvironmentDescription, InfoValue, OptionDescription, StateKeyKind

LENGTH = 9
"""Places to dig at, from 0; one starts in the middle."""
SPLITS = {"train": [f"beach-{place}" for place in range(LENGTH)], "valid": ["beach-2", "beach-4", "beach-6"]}


@dataclass(slots=True)
class Beach:
    """One live episode."""

    coin: int
    pays: str
    place: int = LENGTH // 2
    score: float | None = None
    history: list[str] = field(default_factory=list)

    def reset(self) -> Observation:
        """Back to the middle."""
        self.place, self.score, self.history = LENGTH // 2, None, []
        return self._observation("You wake up.")

    def step(self, action: str) -> StepOutcome:
        """Walk, or dig and be graded; all else changes nothing."""
        match action:
            case "north" | "south":
                self.place = min(LENGTH - 1, max(0, self.place + (1 if action == "north" else -1)))
                observation = self._observation(f"You walk {action}.")
            case "take coin":
                self.score = 1 - abs(self.place - self.coin) / LENGTH
                observation = self._observation("You take what is here.")
            case _:
                return StepOutcome(self._observation("Nothing happens."), 0.0, False, False)
        self.history.append(action)
        score = self.score or 0.0
        return StepOutcome(observation, score if self.pays == "score" else float(score == 1), score > 0, True)

    def clone(self) -> Self:
        """An independent copy."""
        return replace(self, history=list(self.history))

    def state_key(self, kind: StateKeyKind) -> str:
        """The place, or the way there."""
        return " ".join(self.history) if kind is StateKeyKind.HISTORY else str(self.place)

    def _observation(self, said: str) -> Observation:
        info: dict[str, InfoValue] = {"won": self.score == 1, "task_type": "beach"}
        if self.score is not None:
            info["score"] = self.score
        return Observation(f"{said} Place {self.place}.", ["north", "south", "take coin"], info)


class BeachFamily:
    """All beaches."""

    def describe(self) -> EnvironmentDescription:
        """See `EnvironmentFamily`."""
        pays = OptionDescription(
            name="pays", description="What is paid.", default="score", choices=["score", "success"]
        )
        return EnvironmentDescription(
            name="beach",
            splits={split: len(tasks) for split, tasks in SPLITS.items()},
            max_steps=20,
            action_format="north, south or take coin",
            options=[pays],
            versions={"beach": "1"},
            data_digest="b" * 64,
        )

    def tasks(self, split: str) -> Sequence[str]:
        """See `EnvironmentFamily`."""
        if split not in SPLITS:
            raise UnknownSplitError(f"split {split!r} is none of {sorted(SPLITS)}")
        return SPLITS[split]

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> Beach:
        """See `EnvironmentFamily`."""
        if task_id not in SPLITS["train"]:
            raise UnknownTaskError(f"task_id: there is no beach {task_id!r}")
        pays = options.get("pays", "score")
        if options.keys() - {"pays"} or pays not in ("score", "success"):
            raise InvalidOptionError(
                "pays", f"options: {dict(options)} are not allowed; there is: pays = score, success"
            )
        return Beach(int(task_id.removeprefix("beach-")), str(pays))
