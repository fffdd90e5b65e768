"""A language model of float64 throughout, with samples for it: what gradients are compared in to many digits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from services.trainer.batching import Samples, make_samples
from shared.recipe import Recipe, parse_recipe
from shared.trajectory import Step

VOCABULARY = 13
RECIPE = """
name = "exact"
[model]
path = "model"
[[environments]]
name = "maze"
"""


def exact_recipe(*overrides: str) -> Recipe:
    """A recipe with some lines of TOML laid over it."""
    return parse_recipe(RECIPE, "test", Path(), overrides)


def exact_model(seed: int) -> GPT2LMHeadModel:
    """Two small layers, with an architecture that rounds nothing to float32 on the way as most others' norms do."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=48,
        n_embd=8,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.4)
    return model


def exact_samples(seed: int = 0, episodes: tuple[int, ...] = (3, 2, 1)) -> Samples:
    """Episodes of so many steps whose prompts grow, with actions of 1 to 4 tokens; advantages of both signs.

    The policy server's log-probabilities are made up.
    """
    random = np.random.default_rng(seed)
    steps, numbers = [], []
    for number, length in enumerate(episodes):
        prompt = random.integers(3, VOCABULARY, int(random.integers(2, 5)))
        for _ in range(length):
            action = random.integers(2, VOCABULARY, int(random.integers(1, 5))).astype(np.int32)
            logprobs = -1.0 - 2.0 * random.random(len(action)).astype(np.float32)
            versions = np.zeros(len(action), np.int32)
            steps.append(Step("", "", "", prompt.astype(np.int32), action, logprobs, versions, 0.0, True))
            numbers.append(number)
            prompt = np.concatenate([prompt, action, random.integers(3, VOCABULARY, 2)])
    samples = make_samples(steps, numbers, random.normal(size=len(steps)))
    return replace(
        samples,
        advantages=samples.advantages.double(),
        rollout_logprobs=samples.rollout_logprobs.double(),
        mask=samples.mask.double(),
    )
