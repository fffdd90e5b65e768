"""The ``[algorithm]`` table: GAGPO and its choices (DESIGN §8.1, arXiv 2605.13217)."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from shared.recipe.section import Section


class ValuePool(StrEnum):
    """Whose visits a state's value is averaged over."""

    GROUP = "group"
    BATCH = "batch"


class Visits(StrEnum):
    """Which visits of one episode to a state count."""

    EVERY = "every"
    FIRST = "first"


class AdvantageKind(StrEnum):
    """What stands on the grouped values: GAE, one-step TD, or the return minus the value."""

    GAE = "gae"
    TD = "td"
    MC = "mc"


class Normalisation(StrEnum):
    """Over which steps advantages are normalised."""

    GROUP = "group"
    STATE = "state"
    BATCH = "batch"
    NONE = "none"


class Spread(StrEnum):
    """Divide by the standard deviation, or only take the mean off."""

    STD = "std"
    MEAN_ONLY = "mean-only"


class RatioKind(StrEnum):
    """What shares one importance ratio: the tokens of an action (their mean), each token, or their sum."""

    ACTION = "action"
    TOKEN = "token"
    SEQUENCE = "sequence"


class GagpoSettings(Section):
    """GAGPO. Defaults are the source method's."""

    name: Literal["gagpo"] = "gagpo"

    gamma: float = Field(default=0.95, gt=0.0, le=1.0)
    """Discount per step, γ."""

    lam: float = Field(default=0.8, ge=0.0, le=1.0)
    """GAE's λ: 0 is one-step TD, 1 is the return minus the value."""

    advantage: AdvantageKind = AdvantageKind.GAE
    """Estimator over the grouped values."""

    value_pool: ValuePool = ValuePool.GROUP
    """Average a state's value over its task group, or over all groups of the same task in the batch."""

    visits: Visits = Visits.EVERY
    """Count every visit of an episode to a state, or only its first."""

    leave_one_out: bool = False
    """Leave a step's own episode out of its state's value, where another one visited the state."""

    bootstrap_truncated: bool = False
    """After the step limit, go on with the value of the state where the episode stopped, if the group visited it."""

    normalisation: Normalisation = Normalisation.GROUP
    """Over which steps advantages are normalised."""

    spread: Spread = Spread.STD
    """Divide by the standard deviation, or only take the mean off."""

    min_std: float | None = Field(default=None, ge=0.0)
    """Floor of the divisor. Unset, 5% of the success reward: it keeps a group in which every episode failed
    from blowing small penalties up to the size of a success."""

    ratio: RatioKind = RatioKind.ACTION
    """What shares one importance ratio."""

    clip_low: float = Field(default=0.2, ge=0.0, lt=1.0)
    """ε_low: the ratio's lower clip is 1 − ε_low."""

    clip_high: float = Field(default=0.2, ge=0.0)
    """ε_high: the ratio's upper clip is 1 + ε_high."""

    kl_coefficient: float = Field(default=0.01, ge=0.0)
    """β of the k3 estimate of KL(π_θ ‖ π_ref). 0 keeps no reference model in memory."""
