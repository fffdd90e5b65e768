"""The ``[algorithm]`` table: credit assignment and its loss, for GAGPO and for what it is compared with (DESIGN §8.1).

``name`` says which; each has settings of its own beside the ones that all share. docs/algorithms.md has the equations.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from shared.recipe.section import Section
from shared.schemas.environment import InfoValue


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


class UpdateKind(StrEnum):
    """How a training step moves the weights."""

    PPO = "ppo"
    """AdamW on the clipped surrogate, in minibatches."""
    TRPO = "trpo"
    """One natural-gradient step inside a trust region: for small models and for adapters."""


class TrustRegionSettings(Section):
    """``update = "trpo"``: conjugate gradient on Fisher-vector products, then a line search."""

    max_kl: float = Field(default=0.01, gt=0.0)
    """Largest mean KL(π_old ‖ π_θ) of a training step, nats a token."""

    conjugate_gradient_steps: int = Field(default=10, ge=1)
    """Iterations for the natural gradient."""

    damping: float = Field(default=0.1, ge=0.0)
    """Multiple of the identity that is added to the Fisher matrix."""

    fisher_share: float = Field(default=1.0, gt=0.0, le=1.0)
    """Share of a training step's episodes that the Fisher matrix is taken over: nearly all of the time goes into its
    products. The gradient and the line search always see every episode."""

    line_search_steps: int = Field(default=10, ge=1)
    """How often the step is halved before it is given up."""


class AlgorithmSettings(Section):
    """What every algorithm has."""

    ratio: RatioKind = RatioKind.TOKEN
    """What shares one importance ratio."""

    clip_low: float = Field(default=0.2, ge=0.0, lt=1.0)
    """ε_low: the ratio's lower clip is 1 − ε_low."""

    clip_high: float = Field(default=0.2, ge=0.0)
    """ε_high: the ratio's upper clip is 1 + ε_high."""

    kl_coefficient: float = Field(default=0.01, ge=0.0)
    """β of the k3 estimate of KL(π_θ ‖ π_ref). 0 keeps no reference model in memory."""

    behaviour_cap: float | None = Field(default=None, gt=0.0)
    """Weigh every step's loss by min(π_old / π_rollout, cap), with the ratio's own sharing: it corrects for a policy
    server whose log-probs differ from the trainer's, and for groups of older versions (the decoupled objective). Needs
    ``training.old_logprobs = "trainer"``. Unset, no weight."""

    min_std: float | None = Field(default=None, ge=0.0)
    """Floor of the normalising divisor. Unset, 5% of the success reward: it keeps a group in which every episode
    failed from blowing small penalties up to the size of a success."""

    update: UpdateKind = UpdateKind.PPO
    """How a training step moves the weights."""

    trust_region: TrustRegionSettings = TrustRegionSettings()
    """For ``update = "trpo"``."""


class GagpoSettings(AlgorithmSettings):
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

    ratio: RatioKind = RatioKind.ACTION
    """What shares one importance ratio."""

    similarity: float | None = Field(default=None, gt=0.0, le=1.0)
    """Unset, states are the same where their keys are equal. Set, observations at least this similar (cosine of their
    TF-IDF vectors) are joined into one state, within a task group: for open-ended text."""

    trajectory_weight: float = Field(default=0.0, ge=0.0)
    """Weight of an added trajectory-level term, GRPO's normalised return of the whole episode. The method has none:
    this is for comparing."""


class GigpoSettings(AlgorithmSettings):
    """GiGPO (arXiv 2505.10978): the episode's relative return, and each step's among the steps from the same state."""

    name: Literal["gigpo"] = "gigpo"

    gamma: float = Field(default=0.95, gt=0.0, le=1.0)
    """Discount per step of the returns that the step advantages compare."""

    omega: float = Field(default=1.0, ge=0.0)
    """ω: weight of the step advantages beside the episode's."""

    spread: Spread = Spread.STD
    """Divide by the standard deviation, or only take the mean off; for both levels."""

    similarity: float | None = Field(default=None, gt=0.0, le=1.0)
    """Unset, anchor states are the ones with equal keys. Set, observations at least this similar are joined."""


class GrpoSettings(AlgorithmSettings):
    """GRPO (arXiv 2402.03300): every step of an episode gets the episode's return relative to its group's."""

    name: Literal["grpo"] = "grpo"

    spread: Spread = Spread.STD
    """Divide by the standard deviation, or only take the mean off."""


class RlooSettings(AlgorithmSettings):
    """RLOO (arXiv 2402.14740): an episode's return less the mean return of the group's other episodes."""

    name: Literal["rloo"] = "rloo"


class CriticSettings(Section):
    """PPO's value model: the policy's network once more, with a head of one number."""

    learning_rate: float = Field(default=1e-5, gt=0.0)
    """Of its own AdamW; the other optimizer settings are the policy's."""

    warmup_steps: int = Field(default=0, ge=0)
    """Training steps in which only the critic learns."""

    epochs: int = Field(default=1, ge=1)
    """Passes over a training step's samples."""

    value_clip: float | None = Field(default=0.5, gt=0.0)
    """How far a value may move from the old one before its gradient is cut, in units of the success reward."""


class PpoSettings(AlgorithmSettings):
    """PPO (arXiv 1707.06347) with a learned critic: GAE over the steps of an episode on the critic's values."""

    name: Literal["ppo"] = "ppo"

    gamma: float = Field(default=0.95, gt=0.0, le=1.0)
    """Discount per step, γ."""

    lam: float = Field(default=0.95, ge=0.0, le=1.0)
    """GAE's λ."""

    normalisation: Literal[Normalisation.BATCH, Normalisation.GROUP, Normalisation.NONE] = Normalisation.BATCH
    """Over which steps advantages are normalised."""

    critic: CriticSettings = CriticSettings()


class CustomSettings(AlgorithmSettings):
    """An estimator of one's own: a class that is installed where the trainer runs."""

    name: Literal["custom"] = "custom"

    estimator: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Its name in the entry-point group ``gagpo.algorithms``, or in the trainer's variable ``GAGPO_ALGORITHMS``. Never
    a module's: a recipe that comes over the network doesn't choose what is imported."""

    options: dict[str, InfoValue] = Field(default_factory=dict)
    """Its own settings, which it describes and checks itself."""


def _name(table: object) -> str:
    """The algorithm that a table is for; GAGPO where it names none."""
    found = table.get("name", "gagpo") if isinstance(table, dict) else getattr(table, "name", "gagpo")
    return str(found)


AnyAlgorithm = Annotated[
    Annotated[GagpoSettings, Tag("gagpo")]
    | Annotated[GigpoSettings, Tag("gigpo")]
    | Annotated[GrpoSettings, Tag("grpo")]
    | Annotated[RlooSettings, Tag("rloo")]
    | Annotated[PpoSettings, Tag("ppo")]
    | Annotated[CustomSettings, Tag("custom")],
    Discriminator(_name),
]
"""The settings of one algorithm, told apart by ``name``."""
