"""Playing ALFWorld games, natively: one episode at a time, the same to the letter as stock TextWorld plays them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from services.env_server.environments.alfworld.game import Game, State

NOTHING_HAPPENS = "Nothing happens."
"""The answer to a command that is not possible."""

_BANNER = re.compile(r"\A\s*-=.*?=-")


@dataclass(frozen=True, slots=True)
class Turn:
    """What a player gets to see and know after a command, or at the start."""

    feedback: str
    """The game's own text, banner and white space included."""
    admissible: Sequence[str]
    """Every possible command, sorted."""
    won: bool
    reward: float
    """1 while the goal is reached, else 0."""
    done: bool
    understood: bool
    """False when the command was not possible, so that nothing happened."""


class Episode(Protocol):
    """One game being played, on whichever engine."""

    turn: Turn

    def reset(self) -> Turn:
        """Start anew."""
        ...

    def step(self, command: str) -> Turn:
        """Give one command. Outer white space does not matter; everything else does."""
        ...

    def clone(self) -> Self:
        """An independent copy that goes on from the same state."""
        ...

    def inventory(self) -> str:
        """What the agent holds, as sorted names."""
        ...

    def true_state(self) -> bytes:
        """Equal for two episodes of one game exactly when the same relevant facts are true."""
        ...


class NativeEpisode:
    """An episode on the native engine."""

    __slots__ = ("game", "state", "turn")

    def __init__(self, game: Game) -> None:
        """Starts at the beginning of the game."""
        self.game = game
        self.state: State = game.initial
        self.turn = self._tell(game.intro, understood=True)

    def reset(self) -> Turn:
        """Start anew."""
        self.state = self.game.initial
        self.turn = self._tell(self.game.intro, understood=True)
        return self.turn

    def step(self, command: str) -> Turn:
        """Give one command."""
        game = self.game
        operator = game.view(self.state).operators.get(command.strip())
        if operator is None:
            self.turn = self._tell(NOTHING_HAPPENS, understood=False)
        else:
            self.state = game.apply(self.state, operator)
            self.turn = self._tell(game.answer(operator, self.state), understood=True)
        return self.turn

    def clone(self) -> "NativeEpisode":
        """An independent copy: states are immutable, so nothing is copied but references."""
        twin = NativeEpisode.__new__(NativeEpisode)
        twin.game, twin.state, twin.turn = self.game, self.state, self.turn
        return twin

    def inventory(self) -> str:
        """What the agent holds, as sorted names."""
        return ", ".join(self.game.held(self.state))

    def true_state(self) -> bytes:
        """The facts that a precondition, the goal or a text can depend on, as bits."""
        return self.game.true_state(self.state)

    def _tell(self, feedback: str, *, understood: bool) -> Turn:
        won = self.game.won(self.state)
        return Turn(feedback, self.game.view(self.state).commands, won, 1.0 if won else 0.0, won, understood)


def observation(feedback: str) -> str:
    """The feedback without its welcome banner and outer white space."""
    return _BANNER.sub("", feedback).strip()
