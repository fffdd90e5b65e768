"""The recipe of a training job (DESIGN §7, §8). Every field's meaning stands under it."""

from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from shared.recipe.algorithm import AnyAlgorithm, GagpoSettings, UpdateKind
from shared.recipe.environment import EnvironmentSettings, PromptSettings, RewardSettings, SamplingDefaults
from shared.recipe.section import Section

ALL_LINEAR = "all-linear"
"""``model.lora_targets``: every linear layer but the output layer."""


class OldLogprobs(StrEnum):
    """Where log π_old comes from."""

    TRAINER = "trainer"
    ROLLOUT = "rollout"


class WeightTransport(StrEnum):
    """How new weights reach the policy servers."""

    FILE = "file"
    HTTP = "http"
    NCCL = "nccl"


class ModelSettings(Section):
    """The policy to start from."""

    path: Path
    """Folder of a Hugging Face causal language model with its tokenizer. Relative to the recipe's folder."""

    dtype: str = Field(default="float32", pattern="^(float32|bfloat16)$")
    """Precision of generation and of training's passes; the weights being trained stay float32. float32 on a CPU;
    bfloat16 is several times slower there."""

    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time."""

    lora_rank: int = Field(default=0, ge=0)
    """Rank of LoRA adapters; 0 trains all weights. Adapters have no dropout: log π has to be a number, not a draw."""

    lora_alpha: int | None = Field(default=None, ge=1)
    """α of the adapters, whose product is scaled by α / rank. Unset, twice the rank."""

    lora_targets: str | list[str] = ALL_LINEAR
    """Layers that get an adapter, by the last part of their names (``["q_proj", "v_proj"]``), or all linear ones but
    the output layer."""

    @field_validator("lora_targets")
    @classmethod
    def _targets_named(cls, targets: str | list[str]) -> str | list[str]:
        if not targets or (isinstance(targets, str) and targets != ALL_LINEAR):
            raise ValueError(f'should be "{ALL_LINEAR}" or a list of layers, such as ["q_proj", "v_proj"]')
        return targets

    @model_validator(mode="after")
    def _adapters_agree(self) -> "ModelSettings":
        if not self.lora_rank and (self.lora_alpha is not None or self.lora_targets != ALL_LINEAR):
            raise ValueError(
                "lora_rank = 0 trains all weights, and lora_alpha and lora_targets are for adapters: "
                "set lora_rank, or leave the two out"
            )
        return self

    @property
    def adapter_alpha(self) -> int:
        """``lora_alpha``, twice the rank unless set."""
        return 2 * self.lora_rank if self.lora_alpha is None else self.lora_alpha


class RolloutSettings(Section):
    """How groups of episodes are made."""

    groups_per_step: int = Field(default=16, ge=1)
    """Task groups in one training step."""

    group_size: int = Field(default=8, ge=2)
    """Episodes of the same task in a group."""

    concurrency: int = Field(default=64, ge=1)
    """Episodes in flight at once, over all replicas."""

    max_staleness: int = Field(default=0, ge=0)
    """0 is synchronous; n ≥ 1 lets generation run up to n policy versions ahead of training."""

    episode_retries: int = Field(default=2, ge=0)
    """How often an episode that failed (not: lost) is tried again before its group is dropped."""

    buffer_bytes: int = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """Most bytes of groups to hold in Redis; beyond it generation waits for the trainer."""


class OptimizerSettings(Section):
    """AdamW and its schedule."""

    learning_rate: float = Field(default=1e-6, gt=0.0)
    """Peak learning rate. 1e-6 for a pretrained LLM; a policy of a million weights takes 1e-4 to 3e-4."""

    warmup_steps: int = Field(default=0, ge=0)
    """Training steps over which the learning rate rises linearly."""

    weight_decay: float = Field(default=0.0, ge=0.0)
    """Decoupled weight decay."""

    beta1: float = Field(default=0.9, ge=0.0, lt=1.0)
    """AdamW's first moment decay."""

    beta2: float = Field(default=0.999, ge=0.0, lt=1.0)
    """AdamW's second moment decay."""

    epsilon: float = Field(default=1e-8, gt=0.0)
    """Added to AdamW's divisor. Larger (1e-5) where many weights see hardly a gradient, such as the rows of rare words:
    they would move as fast as all others otherwise."""

    max_grad_norm: float = Field(default=1.0, gt=0.0)
    """Gradients are scaled down to this norm."""


class TrainingSettings(Section):
    """The training loop."""

    steps: int = Field(default=100, ge=1)
    """Training steps; each consumes ``groups_per_step`` groups and makes one policy version."""

    epochs: int = Field(default=1, ge=1)
    """Passes over a training step's samples."""

    minibatches: int = Field(default=4, ge=1)
    """Optimizer steps per pass."""

    micro_batch_tokens: int = Field(default=8192, ge=128)
    """Most padded tokens in one forward pass; changes speed and memory, never the result."""

    old_logprobs: OldLogprobs = OldLogprobs.TRAINER
    """Recompute log π_old once before the first minibatch, or take the policy server's."""

    checkpoint_every: int = Field(default=5, ge=1)
    """Training steps between checkpoints. Groups leave Redis only once a checkpoint covers them."""

    keep_checkpoints: int = Field(default=2, ge=1)
    """Newest checkpoints to keep."""

    budget_s: float | None = Field(default=None, gt=0.0)
    """Stop after the training step in which this many seconds have passed since training began."""

    environment_steps: int | None = Field(default=None, ge=1)
    """Stop after the training step in which this many environment steps have been trained on: equal for methods that
    are compared, however long their episodes are."""


class EvaluationSettings(Section):
    """Held-out evaluation."""

    episodes: int = Field(default=128, ge=0)
    """Episodes before and after training; 0 leaves evaluation out."""

    temperature: float = Field(default=1.0, ge=0.0)
    """Sampling temperature, the same before and after."""

    seed: int = 1234
    """Draws the tasks and seeds the sampling, the same before and after."""


class WeightSettings(Section):
    """How weights reach the policy servers."""

    transport: WeightTransport = WeightTransport.FILE
    """``file`` on one machine or a shared volume, ``http`` across machines, ``nccl`` between GPUs."""

    push_timeout_s: float = Field(default=300.0, gt=0.0)
    """A push that takes longer has failed and is tried again."""


class TrackingSettings(Section):
    """What a run keeps of its training steps besides events in Redis."""

    tensorboard: bool = True
    """Write TensorBoard files into the run's folder."""

    wandb: bool = False
    """Also log to Weights & Biases (``pip install gagpo[wandb]``, and a login)."""

    wandb_project: str = "gagpo"
    """Project name there."""

    mlflow: bool = False
    """Also log to MLflow (``pip install gagpo[mlflow]``)."""

    mlflow_uri: str | None = None
    """Its server, ``http://127.0.0.1:5000``, or a folder, ``file:///…``; ``MLFLOW_TRACKING_URI`` when left out.
    User and password are set by ``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD``: recipes are shown."""

    mlflow_experiment: str = Field(default="gagpo", min_length=1)
    """Experiment there; made where missing."""

    @field_validator("mlflow_uri")
    @classmethod
    def _no_password(cls, uri: str | None) -> str | None:
        if uri is not None and "@" in urlsplit(uri).netloc:
            raise ValueError("a recipe is shown: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead")
        return uri

    credit_steps: int = Field(default=100, ge=0)
    """So many of the latest training steps keep their credit record, for the credit viewer: the groups and the credit
    of their every step, in the run's folder. 0 for none."""


class Recipe(Section):
    """A whole training job."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """Short name; run folders begin with it."""

    seed: int = 0
    """Decides the tasks' order, the sampling and the optimizer's shuffling."""

    model: ModelSettings
    prompt: PromptSettings = PromptSettings()
    sampling: SamplingDefaults = SamplingDefaults()
    reward: RewardSettings = RewardSettings()
    environments: list[EnvironmentSettings] = Field(min_length=1)
    """Each with its own prompt, sampling and reward spelled out: what its tables leave out is the job's."""

    rollout: RolloutSettings = RolloutSettings()
    algorithm: AnyAlgorithm = GagpoSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    training: TrainingSettings = TrainingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    weights: WeightSettings = WeightSettings()
    tracking: TrackingSettings = TrackingSettings()

    @field_validator("environments")
    @classmethod
    def _complete(cls, environments: list[EnvironmentSettings], info: ValidationInfo) -> list[EnvironmentSettings]:
        names = [environment.name for environment in environments]
        if len(set(names)) != len(names):
            raise ValueError(f"{names} names one twice; give each environment one table")
        job = info.data
        if not {"prompt", "sampling", "reward"} <= job.keys():  # one of them has a fault, which is reported already
            return environments
        return [one.falling_back_to(job["prompt"], job["sampling"], job["reward"]) for one in environments]

    @model_validator(mode="after")
    def _parts_agree(self) -> "Recipe":
        for place, environment in enumerate(self.environments):
            if environment.sampling.temperature != self.sampling.temperature:
                raise ValueError(
                    f"environments.{place}.sampling.temperature = {environment.sampling.temperature}: one policy is "
                    f"trained at one temperature, sampling.temperature = {self.sampling.temperature}; leave it out here"
                )
        if self.algorithm.behaviour_cap is not None and self.training.old_logprobs is not OldLogprobs.TRAINER:
            raise ValueError(
                f"algorithm.behaviour_cap = {self.algorithm.behaviour_cap} compares the trainer's log-probs with the "
                'policy server\'s: set training.old_logprobs = "trainer", or leave the cap out'
            )
        if self.algorithm.update is UpdateKind.TRPO:
            self._check_trust_region()
        total = self.rollout.groups_per_step * self.rollout.group_size
        if self.training.minibatches > total:
            raise ValueError(
                f"training.minibatches = {self.training.minibatches} is more than the {total} episodes of a step"
            )
        return self

    def _check_trust_region(self) -> None:
        asked = 'algorithm.update = "trpo"'
        if self.training.epochs > 1:
            raise ValueError(
                f"training.epochs = {self.training.epochs}: {asked} takes one step over all samples of a training "
                "step; set it to 1"
            )
        if self.model.dtype != "float32":
            raise ValueError(
                f'model.dtype = "{self.model.dtype}": {asked} compares losses and divergences that bfloat16 rounds '
                'away; set it to "float32"'
            )

    @property
    def longest_sequence(self) -> int:
        """Most tokens of a prompt and its answer together, over all environments."""
        return max(one.prompt.max_tokens + one.sampling.max_tokens for one in self.environments)

    @property
    def min_std(self) -> float:
        """The floor of the normalising divisor, 5% of the success reward unless set (DESIGN §8.1).

        For the job's ``reward.success``; an environment with another one has a floor scaled alike.
        """
        floor = self.algorithm.min_std
        return 0.05 * self.reward.success if floor is None else floor
