"""What an algorithm is to the trainer: groups with shaped rewards in, one advantage a step out, and its loss's name.

Numpy only, no torch: credit assignment can be run, tested and drawn where there is no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.recipe import AlgorithmSettings, RatioKind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN = -1
"""Number of a true state that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class CreditEpisode:
    """One episode, as far as credit goes: T rewards, the T states they were earned from, the state it stopped in."""

    rewards: Sequence[float]
    """Already shaped (`services.trainer.rewards`). Length T; T may be 0."""
    state_keys: Sequence[str]
    """Key of the state before each step. Length T."""
    final_state_key: str
    terminated: bool
    """False where a limit cut the episode: then the state it stopped in may still have a value."""
    observations: Sequence[str] = ()
    """What was seen before each step, length T, and ``final_observation`` after the last, to group by similarity."""
    final_observation: str = ""
    true_states: Sequence[str] = ()
    """Key of the true state before each step, length T; empty where it is not known."""
    values: Sequence[float] = ()
    """A critic's value of the state before each step, length T; empty where there is no critic."""


@dataclass(frozen=True, slots=True, eq=False)
class CreditGroup:
    """The episodes of one task group. Keys are compared within the same ``task`` only."""

    task: str
    episodes: Sequence[CreditEpisode]
    scale: float = 1.0
    """What a success is worth here, relative to the job's ``reward.success``."""


@dataclass(frozen=True, slots=True)
class LossKind:
    """The clipped policy-gradient loss that an algorithm asks for; `services.trainer.losses` computes it."""

    ratio: RatioKind
    clip_low: float
    clip_high: float
    kl_coefficient: float
    behaviour_cap: float | None = None
    """Cap of the weight min(π_old / π_rollout, cap) on every step's loss; None for no weight."""

    @classmethod
    def of(cls, settings: AlgorithmSettings) -> "LossKind":
        """The loss that a recipe's ``[algorithm]`` table describes."""
        return cls(
            settings.ratio, settings.clip_low, settings.clip_high, settings.kl_coefficient, settings.behaviour_cap
        )


@dataclass(frozen=True, slots=True, eq=False)
class GroupCredit:
    """What was found for one group. Every array has shape (S,): the steps of episode 0, then of episode 1, …

    What returns, values, deltas and raw advantages are differs a little between algorithms: `credit` of each says.
    """

    lengths: tuple[int, ...]
    """Steps of each episode; their sum is S."""
    returns: Floats
    """G: discounted sum of the rewards from this step on; where episodes count as a whole, R: the plain sum of all."""
    values: Floats
    """V of the state before the step: what the return is compared with."""
    deltas: Floats
    """δ: one-step TD error; without bootstrapping, the return less the value."""
    raw: Floats
    """A: the advantage before normalisation."""
    advantages: Floats
    """Â: what the loss uses."""
    states: Ints
    """Number of the state before the step: equal exactly where the key and the pool are."""
    visits: Ints
    """How many steps of the pool share the step's state, itself included."""
    has_sibling: Bools
    """Whether another episode of the pool was in the step's state."""
    true_states: Ints
    """Number of the true state before the step, or `UNKNOWN`. Compare it within a state only."""

    def by_episode(self) -> list[Floats]:
        """The advantages Â, one array of shape (T,) for each episode."""
        return np.split(self.advantages, np.cumsum(self.lengths)[:-1])

    def first_returns(self) -> list[float]:
        """The return at the first step of each episode; 0 for one without steps."""
        firsts = np.cumsum(self.lengths) - self.lengths
        return [
            float(self.returns[first]) if length else 0.0
            for first, length in zip(firsts.tolist(), self.lengths, strict=True)
        ]


class Algorithm(Protocol):
    """Credit assignment: one advantage per step. A new algorithm is one file with a class of this shape."""

    @property
    def loss(self) -> LossKind:
        """The loss that its advantages are made for."""

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order.

        The whole batch comes at once because some choices pool or normalise over it.
        """
