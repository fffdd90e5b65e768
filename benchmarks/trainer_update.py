"""Tokens a second of the trainer's update against a plain Transformers loop: ``python benchmarks/trainer_update.py``.

Both run one training step on the same made-up samples, of about 100 prompt and 6 action tokens, with a Llama of 0.7
million weights in float32: log π_ref, then four clipped minibatches. The plain loop is what one writes first: padded in
the order of the samples with an attention mask, all logits, fixed batch size, log π_old recomputed for everything.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from services.trainer.algorithms import make_algorithm
from services.trainer.batching import Samples, make_samples
from services.trainer.losses import ActionLogprobs, surrogate
from services.trainer.model import load_policy
from services.trainer.update import Updater
from shared.recipe import Recipe, parse_recipe
from shared.trajectory import Step

VOCABULARY = 600
RECIPE = """
name = "bench"
[model]
path = "model"
[[environments]]
name = "made-up"
[optimizer]
learning_rate = 1e-4
[training]
minibatches = 4
micro_batch_tokens = {tokens}
old_logprobs = "{old}"
"""


def made_up_samples(episodes: int, steps: int) -> Samples:
    """Episodes whose prompts grow by each action and what is seen then, up to about 150 tokens; actions of 3 to 9."""
    rng = np.random.default_rng(0)
    made, numbers = [], []
    for episode in range(episodes):
        prompt = rng.integers(3, VOCABULARY, 40)
        for _ in range(steps):
            action = rng.integers(3, VOCABULARY, int(rng.integers(2, 9)))
            tokens = np.append(action, 2).astype(np.int32)
            logprobs = -rng.random(len(tokens)).astype(np.float32)
            versions = np.zeros(len(tokens), np.int32)
            made.append(Step("", "", "", prompt.astype(np.int32), tokens, logprobs, versions, 0.0, True))
            numbers.append(episode)
            prompt = np.concatenate([prompt, action, rng.integers(3, VOCABULARY, int(rng.integers(3, 8)))])
    return make_samples(made, numbers, rng.normal(size=len(made)))


def apart(samples: Samples) -> Samples:
    """The same samples with nothing in common: as when prompts show only the last few turns."""
    rng = np.random.default_rng(1)
    sequences = [
        np.concatenate([rng.integers(3, VOCABULARY, prompt), sequence[prompt:]])
        for sequence, prompt in zip(samples.sequences, samples.prompt_lengths.tolist(), strict=True)
    ]
    return replace(samples, sequences=tuple(sequences))


def new_model() -> LlamaForCausalLM:
    """A fresh small policy."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).eval()


def plain_logprobs(model: LlamaForCausalLM, samples: Samples, rows: list[int]) -> Tensor:
    """Log-probabilities of some samples' actions, all logits and a padded batch with its mask."""
    width, actions = max(len(samples.sequences[row]) for row in rows), samples.mask.shape[1]
    ids, mask = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.long)
    for place, row in enumerate(rows):
        sequence = torch.from_numpy(samples.sequences[row])
        ids[place, : len(sequence)], mask[place, : len(sequence)] = sequence, 1
    logprobs = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].log_softmax(-1)
    logprobs = logprobs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    first = torch.from_numpy(samples.prompt_lengths[rows]) - 1
    at = (first.unsqueeze(1) + torch.arange(actions)).clamp(max=width - 2)
    chosen: Tensor = logprobs.gather(1, at)
    return chosen


def plain_update(recipe: Recipe, samples: Samples, batch: int = 32) -> Callable[[], None]:
    """The loop that one writes first."""
    model, reference = new_model(), new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss, everything = make_algorithm(recipe).loss, list(range(len(samples)))

    def batches(rows: list[int]) -> list[list[int]]:
        return [rows[start : start + batch] for start in range(0, len(rows), batch)]

    def update() -> None:
        with torch.no_grad():
            old = torch.cat([plain_logprobs(model, samples, rows) for rows in batches(everything)])
            ref = torch.cat([plain_logprobs(reference, samples, rows) for rows in batches(everything)])
        for part in np.array_split(np.random.default_rng(0).permutation(len(samples)), recipe.training.minibatches):
            for rows in batches(part.tolist()):
                new = plain_logprobs(model, samples, rows)
                found = surrogate(
                    ActionLogprobs(new, old[rows], ref[rows], samples.mask[rows]), samples.advantages[rows], loss
                )
                torch.autograd.backward(found.loss / len(part))
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return update


def trainer_update(
    recipe: Recipe, samples: Samples, policy: PreTrainedModel, reference: PreTrainedModel | None
) -> Callable[[], None]:
    """The trainer's own update."""
    updater = Updater(recipe, make_algorithm(recipe).loss, policy, reference)
    return lambda: void(updater.update(samples, step=0))


def compare_trust_region(policy: Path, episodes: int, steps: int, rounds: int) -> None:
    """Print what a training step by ``update = "trpo"`` takes on a real policy, against the clipped update."""
    samples = made_up_samples(episodes, steps)
    print(f"{policy}: {len(samples)} samples, {samples.tokens / len(samples):.0f} tokens each")
    clipped = 0.0
    for kind in ('"ppo"', '"trpo"', '"trpo"\ntrust_region.fisher_share = 0.1'):
        table = f"\n[algorithm]\nkl_coefficient = 0.0\nupdate = {kind}"
        recipe = parse_recipe(RECIPE.format(tokens=8192, old="trainer") + table, "benchmark", Path())
        model = load_policy(recipe.model.model_copy(update={"path": policy}))
        taken = seconds(trainer_update(recipe, samples, model, None), rounds)
        clipped = clipped or taken
        shown = kind.replace("\n", ", ")
        print(f"update = {shown}: {taken:.2f} s a training step, {taken / clipped:.1f} times the clipped update")


def void(_: object) -> None:
    """Forget a result."""


def seconds(update: Callable[[], None], rounds: int) -> float:
    """Median over rounds, after one that warms up."""
    update()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        update()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    """Print tokens a second, prompts and actions, and the ratio to the plain loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192], help="micro batch sizes to try")
    parser.add_argument("--trpo", type=Path, metavar="POLICY", help="time the trust region on this policy instead")
    options = parser.parse_args()
    if options.trpo is not None:
        compare_trust_region(options.trpo, options.episodes, options.steps, options.rounds)
        return
    samples = made_up_samples(options.episodes, options.steps)
    recipes = {
        (old, tokens): parse_recipe(RECIPE.format(tokens=tokens, old=old), "benchmark", Path())
        for old in ("trainer", "rollout")
        for tokens in options.tokens
    }
    plain = seconds(plain_update(recipes["trainer", options.tokens[0]], samples), options.rounds)
    print(f"{len(samples)} samples, {samples.tokens / len(samples):.0f} tokens each, {torch.get_num_threads()} threads")
    print(f"plain loop: {plain:.2f} s, {samples.tokens / plain:.0f} tokens/s")
    for name, shown in (("prompts grow", samples), ("prompts differ", apart(samples))):
        for (old, tokens), recipe in recipes.items():
            taken = seconds(trainer_update(recipe, shown, new_model(), new_model()), options.rounds)
            print(
                f"{name}, old_logprobs = {old}, micro batches of {tokens}: {taken:.2f} s, "
                f"{samples.tokens / taken:.0f} tokens/s, {plain / taken:.2f} times the plain loop"
            )


if __name__ == "__main__":
    main()
