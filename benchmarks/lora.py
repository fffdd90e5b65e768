"""Memory and time of training all weights and of LoRA: ``python benchmarks/lora.py --model FOLDER --ranks 0 8``.

Each rank is measured in a process of its own: a learner as a job makes it (a KL reference, log π_old recomputed),
updates on made-up samples, then the weights written as they are pushed. Time is that of one core, whatever else the
machine does; memory is the process's highest so far.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from services.trainer.batching import Samples, make_samples
from services.trainer.distributed import ALONE
from services.trainer.learner import Learner
from services.trainer.lora import save_model, trained_weights
from services.trainer.stopping import StopFlag
from shared.recipe import Recipe, parse_recipe
from shared.trajectory import Step

RECIPE = """
name = "bench"
[model]
path = "{model}"
lora_rank = {rank}
gradient_checkpointing = {recompute}
[[environments]]
name = "made-up"
[training]
minibatches = 2
micro_batch_tokens = {tokens}
"""


def made_up_samples(count: int, length: int, vocabulary: int) -> Samples:
    """Prompts that have nothing in common, each with an action of eight tokens."""
    rng = np.random.default_rng(0)
    steps = []
    for _ in range(count):
        prompt, action = (rng.integers(3, vocabulary, size).astype(np.int32) for size in (length - 8, 8))
        versions = np.zeros(8, np.int32)
        steps.append(Step("", "", "", prompt, action, -rng.random(8).astype(np.float32), versions, 0.0, True))
    return make_samples(steps, range(count), rng.normal(size=count))


def measure(recipe: Recipe, options: argparse.Namespace) -> str:
    """One line of the table."""
    torch.set_num_threads(1)
    learner = Learner(recipe, None, ALONE, StopFlag())
    policy = learner.whole()
    samples = made_up_samples(options.samples, options.length, policy.config.vocab_size)
    loaded = peak_mb()
    taken = []
    for step in range(options.rounds + 1):  # the first one warms up
        start = time.process_time()
        learner.update(samples, step)
        taken.append(time.process_time() - start)
    updated, start = peak_mb(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        save_model(learner.whole(), Path(folder))
    exported = time.process_time() - start
    trained = sum(weight.numel() for weight in trained_weights(policy))
    what = f"rank {recipe.model.lora_rank}" if recipe.model.lora_rank else "all weights"
    return (
        f"{what}: {trained:,} weights trained, {statistics.median(taken[1:]):.2f} s an update, {exported:.2f} s an "
        f"export; {loaded:.0f} MB when loaded, {updated:.0f} MB after updates, {peak_mb():.0f} MB after an export"
    )


def peak_mb() -> float:
    """The most memory that this process has had. (`resource.getrusage` would count the parent's too.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    """Measure each rank in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[0, 8], help="0 trains all weights")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--length", type=int, default=100, help="tokens of a prompt with its action")
    parser.add_argument("--tokens", type=int, default=1024, help="micro batches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recompute", choices=("true", "false"), default="false", help="model.gradient_checkpointing")
    options = parser.parse_args()
    if len(options.ranks) == 1:
        model, tokens = options.model.resolve(), options.tokens
        text = RECIPE.format(model=model, rank=options.ranks[0], tokens=tokens, recompute=options.recompute)
        print(measure(parse_recipe(text, "benchmark", Path()), options))
        return
    for rank in options.ranks:
        rest = [
            f"--{name}={getattr(options, name)}"
            for name in ("samples", "length", "tokens", "rounds", "model", "recompute")
        ]
        subprocess.run([sys.executable, __file__, "--ranks", str(rank), *rest], check=True)


if __name__ == "__main__":
    main()
