"""What a unit of each kind of work costs. All times are seconds, on one unit of the resource that does the work."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class GenerationCosts:
    """One policy server. Each of its engine's iterations computes a token for every running request."""

    iteration_s: float
    """Part of an iteration that does not depend on its batch: reading the weights, launching kernels."""
    decode_s: float
    """For each running request in an iteration: its matrix products, and reading its keys and values."""
    prefill_s: float
    """For each prompt token that is computed rather than found in the prefix cache."""

    def scaled(self, factor: float) -> "GenerationCosts":
        """The same server, slower by ``factor``."""
        return GenerationCosts(self.iteration_s * factor, self.decode_s * factor, self.prefill_s * factor)


@dataclass(frozen=True, slots=True)
class TrainingCosts:
    """One training process. Tokens are prompt and action tokens of samples, as ``tokens_trained`` counts them."""

    update_token_s: float
    """Forward and backward pass and the optimizer's share, for each token and epoch."""
    forward_token_s: float
    """Forward pass alone: log π_old and log π_ref."""
    fixed_s: float
    """For each training step, whatever its size: reading groups, advantages, recording metrics."""


@dataclass(frozen=True, slots=True)
class MovedBytes:
    """How much is moved, each time."""

    pushed: float
    """To each policy server: all weights."""
    saved: float
    """Into a checkpoint: all weights, and what the optimizer keeps of those that are trained."""


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """Moving weights: a push to the policy servers, a checkpoint to a disk."""

    fixed_s: float
    byte_s: float

    def seconds(self, size: float) -> float:
        """For so many bytes."""
        return self.fixed_s + self.byte_s * size


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """All that a prediction needs to know of the machines."""

    source: str
    """Where the figures come from: a run that was measured, or data sheets."""
    estimated: bool
    """Whether anything but the CPU parts is an estimate rather than a measurement."""
    env_step_s: float
    """Core seconds of the env server for a step over HTTP, journal included."""
    env_open_s: float
    """Core seconds for opening a group's sessions."""
    turn_s: float
    """Core seconds of an orchestrator for a turn: rendering and tokenising the prompt, two requests, bookkeeping."""
    generation: GenerationCosts
    training: TrainingCosts
    push: TransferCosts
    checkpoint: TransferCosts
    shared_machine: bool
    """Whether generation and training take turns on the same processors, so that overlapping them gains nothing."""

    def with_slower_generation(self, factor: float) -> "UnitCosts":
        """The same, with generation slower by ``factor``."""
        return replace(self, generation=self.generation.scaled(factor))

    def with_frozen_weights(self) -> "UnitCosts":
        """The same where only LoRA adapters are trained: an update leaves out the gradients of frozen weights, which
        take as much arithmetic as a forward pass.
        """
        training = self.training
        update_token_s = training.update_token_s - training.forward_token_s
        return replace(self, training=replace(training, update_token_s=update_token_s))
