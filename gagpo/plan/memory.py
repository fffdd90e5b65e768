"""How much memory a job takes on its accelerators."""

from dataclasses import dataclass

from gagpo.plan.models import ModelSize
from gagpo.plan.workload import Workload

ACTIVATION_BYTES = 34
"""For each token, layer and hidden unit, in 16 bits, with attention that keeps no scores: what the backward pass needs
(Korthikanti et al. 2022, arXiv 2205.05198, equation 1 without its attention term)."""

TRAINED_BYTES = 4
"""Of a weight in training, of its gradient and of each of its two moments: float32 whatever ``model.dtype`` says.
Weights are pushed and saved so too."""

RECOMPUTED_BYTES = 2
"""The same when a layer's activations are recomputed and only its input is kept."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes on one accelerator, each."""

    policy_weights: float
    key_values: float
    """For the requests that one policy server has in flight."""
    trainer_weights: float
    """Weights and gradients, of a critic too, and the reference model where it is one more."""
    optimizer: float
    activations: float
    """Of one micro batch, logits included."""

    @property
    def policy(self) -> float:
        """All of a policy server's."""
        return self.policy_weights + self.key_values

    @property
    def trainer(self) -> float:
        """All of a training process's."""
        return self.trainer_weights + self.optimizer + self.activations


def memory_need(
    size: ModelSize,
    work: Workload,
    *,
    number_bytes: int,
    requests: float,
    tensor_parallel: int,
    training_processes: int,
    micro_batch_tokens: int,
    recompute: bool,
    adapters: int = 0,
) -> MemoryNeed:
    """``requests`` are those that one policy server computes at once; FSDP2 shards all but the activations.

    ``adapters`` is the number of weights in LoRA adapters, 0 where all weights are trained.
    """
    weights, trained = size.parameters * number_bytes, (adapters or size.parameters) * TRAINED_BYTES
    networks = 2 if work.critic_epochs else 1  # a critic is the policy's network once more
    # Kept as they compute: weights that are frozen, which are the reference too; else the reference, which needs no
    # gradients, and a copy of the policy where that is not float32.
    copies = networks if adapters else int(work.reference) + networks * int(number_bytes < TRAINED_BYTES)
    computing = weights * copies
    kept = RECOMPUTED_BYTES * size.layers + ACTIVATION_BYTES if recompute else ACTIVATION_BYTES * size.layers
    actions = micro_batch_tokens * work.answer_tokens / (work.prompt_tokens + work.answer_tokens)
    logits = actions * size.vocabulary * 4 * 3  # float32: logits, their gradient, and the softmax between
    return MemoryNeed(
        policy_weights=weights / tensor_parallel,
        key_values=requests
        * (work.prompt_tokens + work.answer_tokens)
        * size.key_value_bytes(number_bytes)
        / tensor_parallel,
        trainer_weights=(networks * 2 * trained + computing) / training_processes,
        optimizer=networks * 2 * trained / training_processes,
        activations=micro_batch_tokens * size.hidden * kept * number_bytes / 2 + logits,
    )
