"""The environments of a recipe, and how they are played: prompts, sampling, rewards.

``[prompt]``, ``[sampling]`` and ``[reward]`` are the job's. An environment may have tables of the same names under it,
with just the keys in which it differs; every other key is the job's.
"""

from typing import Self, TypeVar

from pydantic import Field

from shared.recipe.section import Section
from shared.schemas.environment import InfoValue, StateKeyKind

SectionKind = TypeVar("SectionKind", bound=Section)


class PromptSettings(Section):
    """How a step's prompt is made."""

    template: str = "compact"
    """Name of a template that ships with the orchestrator (``compact``, ``think-action``), or a path to one."""

    history_length: int = Field(default=2, ge=0)
    """How many past observations and actions the prompt shows."""

    admissible_actions: bool = True
    """Show the list of admissible actions."""

    max_tokens: int = Field(default=512, ge=16)
    """Longest prompt; the oldest history is cut first, the task never."""


class SamplingDefaults(Section):
    """How actions are sampled in training."""

    max_tokens: int = Field(default=16, ge=1)
    """Longest action."""

    temperature: float = Field(default=1.0, ge=0.0)
    """1 samples from the model itself; evaluation has a temperature of its own."""

    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Nucleus sampling; 1 keeps every token."""

    top_k: int = Field(default=0, ge=0)
    """Keep the k most likely tokens; 0 keeps every token."""


class RewardSettings(Section):
    """What a step is worth to the trainer."""

    success: float = Field(default=10.0, gt=0.0)
    """Multiplies the environment's own reward: 10 for winning where that is 1."""

    invalid_action_penalty: float = Field(default=0.1, ge=0.0)
    """Taken off a step whose action the environment did not understand."""


class EnvironmentSettings(Section):
    """One environment to train on."""

    name: str
    """Name as ``GET /v1/environments`` lists it."""

    split: str = "train"
    """Tasks to train on."""

    eval_split: str = "valid_unseen"
    """Held-out tasks for evaluation."""

    weight: float = Field(default=1.0, gt=0.0)
    """Share of the groups, relative to the other environments'."""

    max_steps: int = Field(default=50, ge=1)
    """Step limit of an episode."""

    state_key: StateKeyKind = StateKeyKind.OBSERVATION
    """When two states count as the same for the grouped value."""

    options: dict[str, InfoValue] = Field(default_factory=dict)
    """The environment's own options, as ``GET /v1/environments`` describes them."""

    eval_episodes: int | None = Field(default=None, ge=1)
    """Held-out episodes of this environment. Unset, its share by weight of ``evaluation.episodes``."""

    generate: list[str] | None = None
    """Arguments of ``gagpo data generate <name>``: tasks that a local run makes for itself where the environment's
    data folder (``ALFWORLD_DATA``, say) is not set. Equal arguments make equal tasks on any machine."""

    prompt: PromptSettings = PromptSettings()
    """How this environment's prompts are made, where it differs from the job's ``[prompt]``."""

    sampling: SamplingDefaults = SamplingDefaults()
    """How its actions are sampled, where it differs from the job's ``[sampling]``. The temperature can't: one policy is
    trained at one temperature."""

    reward: RewardSettings = RewardSettings()
    """What its steps are worth, where it differs from the job's ``[reward]``."""

    def falling_back_to(self, prompt: PromptSettings, sampling: SamplingDefaults, reward: RewardSettings) -> Self:
        """The same environment with the job's value in the place of every key that its own tables leave out."""
        complete = {
            "prompt": _filled(self.prompt, prompt),
            "sampling": _filled(self.sampling, sampling),
            "reward": _filled(self.reward, reward),
        }
        return self.model_copy(update=complete)


def _filled(own: SectionKind, job: SectionKind) -> SectionKind:
    return job.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
