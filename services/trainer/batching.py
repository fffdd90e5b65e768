"""A training step's samples, and how they become forward passes that share what they have in common.

Where each prompt of an episode begins with the prompt and the action before it, as with a template that shows the whole
history, one causal row holds all steps of the episode: every action is read off at its own positions. Rows are padded
on the right and need no attention mask, because with causal attention nothing real ever looks at what is behind it.
All this is a matter of speed and memory only; sums over samples don't depend on it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.trajectory import Step

Rows = NDArray[np.int64]


class Sequences(Protocol):
    """What a forward pass takes: N sequences, in each of which the tokens behind the prompt are predicted."""

    @property
    def sequences(self) -> tuple[NDArray[np.int64], ...]:
        """Token ids of each; the last one is never an input."""

    @property
    def prompt_lengths(self) -> Rows:
        """Shape (N,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """N steps to train on; A is the longest action's number of tokens."""

    sequences: tuple[NDArray[np.int64], ...]
    """Prompt and action token ids of each sample."""
    prompt_lengths: Rows
    """Shape (N,)."""
    episodes: Rows
    """Number of the episode that the sample is a step of. Shape (N,)."""
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

    def none(self) -> "Samples":
        """Without any of them."""
        return make_samples([], [], np.zeros(0))

    def to(self, device: torch.device) -> "Samples":
        """The same with its tensors on a device."""
        return replace(
            self,
            advantages=self.advantages.to(device),
            rollout_logprobs=self.rollout_logprobs.to(device),
            mask=self.mask.to(device),
        )


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """One forward pass: B samples with T action tokens in all, read off U rows of at most L tokens."""

    samples: Tensor
    """Which samples. Shape (B,)."""
    input_ids: Tensor
    """Shape (U, L)."""
    rows: Tensor
    """The row that predicts each action token. Shape (T,)."""
    positions: Tensor
    """The position in that row that predicts it. Shape (T,)."""
    targets: Tensor
    """The action tokens themselves. Shape (T,)."""
    places: tuple[Tensor, Tensor]
    """Where each action token belongs in an array of shape (B, A)."""

    def to(self, device: torch.device) -> "MicroBatch":
        """The same on a device."""
        if device.type == "cpu":
            return self
        return MicroBatch(
            samples=self.samples.to(device),
            input_ids=self.input_ids.to(device),
            rows=self.rows.to(device),
            positions=self.positions.to(device),
            targets=self.targets.to(device),
            places=(self.places[0].to(device), self.places[1].to(device)),
        )


def make_samples(steps: Sequence[Step], episodes: Sequence[int], advantages: NDArray[np.float64]) -> Samples:
    """Samples of steps, with the number of its episode and an advantage for each.

    Steps without a sampled token have nothing to train and are skipped.
    """
    kept = [place for place, step in enumerate(steps) if len(step.token_ids)]
    width = max((len(steps[place].token_ids) for place in kept), default=0)
    logprobs, mask = np.zeros((len(kept), width), np.float32), np.zeros((len(kept), width), np.float32)
    for row, place in enumerate(kept):
        length = len(steps[place].token_ids)
        logprobs[row, :length] = steps[place].logprobs
        mask[row, :length] = 1
    return Samples(
        sequences=tuple(
            np.concatenate([steps[place].prompt_token_ids, steps[place].token_ids]).astype(np.int64) for place in kept
        ),
        prompt_lengths=np.array([len(steps[place].prompt_token_ids) for place in kept], np.int64),
        episodes=np.array([episodes[place] for place in kept], np.int64),
        advantages=torch.from_numpy(advantages[kept].astype(np.float32)),
        rollout_logprobs=torch.from_numpy(logprobs),
        mask=torch.from_numpy(mask),
    )


def minibatch_plan(episodes: Rows, minibatches: int, epochs: int, seed: tuple[int, int]) -> list[Rows]:
    """The samples of each minibatch, over all epochs. Episodes stay whole: their steps share forward passes.

    ``episodes`` is the number of each sample's episode, shape (N,). Every epoch shuffles them anew.
    """
    numbers = np.unique(episodes)
    plan: list[Rows] = []
    for epoch in range(epochs):
        order = np.random.default_rng([*seed, epoch]).permutation(numbers)
        for part in np.array_split(order, min(minibatches, len(numbers))):
            plan.append(np.flatnonzero(np.isin(episodes, part)))
    return plan


def micro_batches(
    samples: Sequences, chosen: Rows, token_budget: int, rank: int = 0, ranks: int = 1
) -> list[MicroBatch]:
    """The chosen samples in micro batches of at most ``token_budget`` padded tokens (or one row), by length.

    Of several processes, ``rank`` gets its share, with about as many tokens as the others'. All get equally many, even
    if it takes empty ones: sharded weights are gathered for a forward pass by all at once.
    """
    rows = sorted(_shared_rows(samples, chosen), key=lambda row: len(row.tokens))
    parts = _cut(rows, token_budget)
    if ranks > 1:
        passes = -(-len(parts) // ranks)
        parts = _cut_evenly(rows, token_budget, passes * ranks)
        parts += [[]] * (passes * ranks - len(parts))
    # Neighbours have rows of about one length, so that the processes are done with a pass at about the same time.
    return [_micro_batch(samples, part) if part else _empty_micro_batch() for part in parts[rank::ranks]]


@dataclass(slots=True, eq=False)
class _Row:
    """Tokens to run through the model, and the samples whose actions are read off there."""

    tokens: NDArray[np.int64]
    samples: list[int]


def _shared_rows(samples: Sequences, chosen: Rows) -> list[_Row]:
    """A row for every sample whose input is not the beginning of another's; the others ride along.

    The last action token is predicted but never an input, so it does not count.
    """
    # Sorted by their bytes, a sequence stands directly before those that it begins (tokens have one width in bytes).
    inputs = sorted((samples.sequences[sample][:-1].tobytes(), sample) for sample in chosen.tolist())
    rows: list[_Row] = []
    longer = b""
    for tokens, sample in reversed(inputs):
        if rows and longer.startswith(tokens):
            rows[-1].samples.append(sample)
        else:
            rows.append(_Row(samples.sequences[sample][:-1], [sample]))
        longer = tokens
    return rows


def _cut(rows: Sequence[_Row], token_budget: int) -> list[Sequence[_Row]]:
    """Rows, sorted by length, in parts of at most ``token_budget`` padded tokens, or of one row."""
    parts: list[Sequence[_Row]] = []
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or (stop + 1 - start) * len(rows[stop].tokens) > token_budget:
            parts.append(rows[start:stop])
            start = stop
    return parts


def _cut_evenly(rows: Sequence[_Row], token_budget: int, most: int) -> list[Sequence[_Row]]:
    """The same in at most ``most`` parts, with the smallest budget that allows it; ``token_budget`` does."""
    budgets = range(1, token_budget + 1)
    return _cut(rows, budgets[bisect_left(budgets, True, key=lambda budget: len(_cut(rows, budget)) <= most)])


def _empty_micro_batch() -> MicroBatch:
    """A forward pass of one token without any sample."""
    none = torch.zeros(0, dtype=torch.long)
    return MicroBatch(none, torch.zeros(1, 1, dtype=torch.long), none, none, none, (none, none))


def _micro_batch(samples: Sequences, rows: Sequence[_Row]) -> MicroBatch:
    input_ids = np.zeros((len(rows), max(len(row.tokens) for row in rows)), np.int64)
    riding = [(place, sample) for place, row in enumerate(rows) for sample in row.samples]
    for place, row in enumerate(rows):
        input_ids[place, : len(row.tokens)] = row.tokens
    prompts = samples.prompt_lengths[[sample for _, sample in riding]]
    actions = [samples.sequences[sample][prompt:] for (_, sample), prompt in zip(riding, prompts.tolist(), strict=True)]
    lengths = [len(action) for action in actions]
    within = np.concatenate([np.arange(length) for length in lengths])
    return MicroBatch(
        samples=torch.tensor([sample for _, sample in riding]),
        input_ids=torch.from_numpy(input_ids),
        rows=torch.from_numpy(np.repeat([place for place, _ in riding], lengths)),
        positions=torch.from_numpy(np.repeat(prompts - 1, lengths) + within),
        targets=torch.from_numpy(np.concatenate(actions)),
        places=(torch.from_numpy(np.repeat(np.arange(len(riding)), lengths)), torch.from_numpy(within)),
    )
