"""A training step's samples, and how they are cut into padded micro batches.

Sequences are padded on the right and need no attention mask: with causal attention nothing real ever looks at the
padding behind it. Micro batches are a matter of speed and memory only; sums over samples don't depend on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.trajectory import Step

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """N steps to train on; A is the longest action's number of tokens."""

    sequences: tuple[NDArray[np.int64], ...]
    """Prompt and action token ids of each sample."""
    prompt_lengths: Rows
    """Shape (N,)."""
    advantages: Tensor
    """Shape (N,), float32."""
    rollout_logprobs: Tensor
    """What the policy server reported, shape (N, A), 0 at padding."""
    mask: Tensor
    """1 at action tokens, 0 at padding. Shape (N, A), float32."""

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def tokens(self) -> int:
        """Prompt and action tokens of all samples."""
        return sum(len(sequence) for sequence in self.sequences)


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """One forward pass: B samples, made of U different sequences of at most L tokens."""

    rows: Tensor
    """Which samples. Shape (B,)."""
    inverse: Tensor
    """Each sample's sequence: equal prompt and equal action are computed once. Shape (B,)."""
    input_ids: Tensor
    """Shape (U, L)."""
    positions: Tensor
    """Where each action token is predicted from; 0 at padding. Shape (U, A)."""
    targets: Tensor
    """The action tokens; 0 at padding. Shape (U, A)."""
    present: Tensor
    """Whether there is an action token. Shape (U, A), bool."""


def make_samples(steps: Sequence[Step], advantages: NDArray[np.float64]) -> Samples:
    """Samples of steps with one advantage each; steps without a sampled token have nothing to train and are skipped."""
    kept = [(step, advantage) for step, advantage in zip(steps, advantages, strict=True) if len(step.token_ids)]
    width = max((len(step.token_ids) for step, _ in kept), default=0)
    logprobs, mask = np.zeros((len(kept), width), np.float32), np.zeros((len(kept), width), np.float32)
    for row, (step, _) in enumerate(kept):
        logprobs[row, : len(step.logprobs)] = step.logprobs
        mask[row, : len(step.token_ids)] = 1
    return Samples(
        sequences=tuple(np.concatenate([step.prompt_token_ids, step.token_ids]).astype(np.int64) for step, _ in kept),
        prompt_lengths=np.array([len(step.prompt_token_ids) for step, _ in kept], np.int64),
        advantages=torch.tensor([advantage for _, advantage in kept], dtype=torch.float32),
        rollout_logprobs=torch.from_numpy(logprobs),
        mask=torch.from_numpy(mask),
    )


def micro_batches(samples: Samples, rows: Rows, token_budget: int) -> list[MicroBatch]:
    """The given samples in micro batches of at most ``token_budget`` padded tokens (or one sequence), by length."""
    shared: dict[tuple[int, bytes], list[int]] = {}
    for row in rows.tolist():
        key = (int(samples.prompt_lengths[row]), samples.sequences[row].tobytes())
        shared.setdefault(key, []).append(row)
    copies = sorted(shared.values(), key=lambda same: len(samples.sequences[same[0]]))
    batches: list[MicroBatch] = []
    start = 0
    for stop in range(1, len(copies) + 1):
        longest = len(samples.sequences[copies[stop][0]]) if stop < len(copies) else 0
        if stop == len(copies) or (stop + 1 - start) * longest > token_budget:
            batches.append(_micro_batch(samples, copies[start:stop]))
            start = stop
    return batches


def _micro_batch(samples: Samples, copies: Sequence[Sequence[int]]) -> MicroBatch:
    first = [same[0] for same in copies]
    width, action_width = max(len(samples.sequences[row]) for row in first), samples.mask.shape[1]
    input_ids = np.zeros((len(first), width), np.int64)
    positions, targets = np.zeros((len(first), action_width), np.int64), np.zeros((len(first), action_width), np.int64)
    present = np.zeros((len(first), action_width), np.bool_)
    for place, row in enumerate(first):
        sequence, prompt = samples.sequences[row], int(samples.prompt_lengths[row])
        length = len(sequence) - prompt
        input_ids[place, : len(sequence)] = sequence
        positions[place, :length] = np.arange(prompt - 1, len(sequence) - 1)
        targets[place, :length] = sequence[prompt:]
        present[place, :length] = True
    return MicroBatch(
        rows=torch.tensor([row for same in copies for row in same]),
        inverse=torch.tensor([place for place, same in enumerate(copies) for _ in same]),
        input_ids=torch.from_numpy(input_ids),
        positions=torch.from_numpy(positions),
        targets=torch.from_numpy(targets),
        present=torch.from_numpy(present),
    )
