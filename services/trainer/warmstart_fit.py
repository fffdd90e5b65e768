"""Supervised warm-up: the policy learns to answer as the expert did."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from services.trainer.small_policy.tokenizer import PAD_ID
from services.trainer.warmstart_episodes import Sample

IGNORED = -100
POOL = 16
"""Batches are cut from so many batches' worth of samples sorted by length, which saves padding."""


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How the warm-up trains."""

    epochs: int = 8
    batch: int = 16
    """Rows (most often whole episodes) in one optimizer step."""
    learning_rate: float = 2e-3
    """Peak: it rises linearly over the first `rise` of all optimizer steps, then falls as a cosine to 2% of this."""
    rise: float = 0.05
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    label_smoothing: float = 0.0
    """Share of the probability that is spread over all words instead of the answer's."""


@dataclass(slots=True)
class Row:
    """Several steps of one episode in one sequence, so that what their prompts share is computed once."""

    tokens: list[int]
    targets: list[int]
    """What to answer after each token, `IGNORED` where nothing is asked. Not always the next token: an action is
    followed by its consequences, but the answer ends there."""


def rows(episodes: Sequence[Sequence[Sample]]) -> list[Row]:
    """As few sequences as hold all samples: a prompt that begins with the step before it continues that one's row.

    Under a causal model every answer's loss is then the same as with its prompt alone.
    """
    found: list[Row] = []
    for episode in episodes:
        row: Row | None = None
        for sample in episode:
            if row is None or sample.prompt[: len(row.tokens)] != row.tokens:
                row = Row([], [])
                found.append(row)
            fresh = sample.prompt[len(row.tokens) :]
            row.tokens += [*fresh, *sample.answer[:-1]]
            row.targets += [IGNORED] * len(fresh) + sample.answer[1:]
            row.targets[-len(sample.answer)] = sample.answer[0]
    return found


def fit(
    model: LlamaForCausalLM,
    found: Sequence[Row],
    settings: FitSettings,
    seed: int,
    on_batch: Callable[[float], None] = lambda loss: None,
) -> None:
    """Train ``model`` in place. Calls ``on_batch`` with the loss (nats a token) after every optimizer step."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=(0.9, 0.98)
    )
    total = batches(len(found), settings)
    model.train()
    for number, batch in enumerate(_batches(found, settings, random.Random(seed))):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * schedule(number, total, settings.rise)
        loss = imitation_loss(model, batch, settings.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        on_batch(loss.item())
    model.eval()


def batches(found: int, settings: FitSettings) -> int:
    """How many optimizer steps `fit` makes on so many rows."""
    return settings.epochs * math.ceil(found / settings.batch)


def schedule(number: int, total: int, rise: float) -> float:
    """The learning rate's factor at optimizer step ``number`` of ``total``."""
    rising = max(1.0, rise * total)
    if number < rising:
        return (number + 1) / rising if rising > 1 else 1.0
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (number - rising) / max(1.0, total - rising)))


def imitation_loss(model: LlamaForCausalLM, batch: Sequence[Row], label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of the answers' tokens, the prompts' left out. Scalar, with gradient, nats a token."""
    longest = max(len(row.tokens) for row in batch)
    ids = torch.full((len(batch), longest), PAD_ID)
    wanted = torch.full((len(batch), longest), IGNORED)
    for number, row in enumerate(batch):
        ids[number, : len(row.tokens)] = torch.tensor(row.tokens)
        wanted[number, : len(row.targets)] = torch.tensor(row.targets)
    hidden = model.model(input_ids=ids).last_hidden_state
    answered = wanted != IGNORED
    return torch.nn.functional.cross_entropy(
        model.lm_head(hidden[answered]), wanted[answered], label_smoothing=label_smoothing
    )


def _batches(found: Sequence[Row], settings: FitSettings, rng: random.Random) -> Iterator[list[Row]]:
    for _ in range(settings.epochs):
        order = list(found)
        rng.shuffle(order)
        epoch = []
        for start in range(0, len(order), POOL * settings.batch):
            pool = sorted(order[start : start + POOL * settings.batch], key=lambda row: len(row.tokens))
            epoch += [pool[i : i + settings.batch] for i in range(0, len(pool), settings.batch)]
        rng.shuffle(epoch)
        yield from epoch
