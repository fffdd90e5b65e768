"""How long GAGPO's credit assignment takes, and that it grows linearly: ``python benchmarks/advantages.py``.

The target is 10 ms for 128 episodes of 50 steps (16 groups of 8).
"""

import random
import statistics
import time

from services.trainer.algorithms import CreditEpisode, CreditGroup, Gagpo
from shared.recipe import GagpoSettings

ROUNDS = 15


def made_up_batch(groups: int, steps: int) -> list[CreditGroup]:
    """Groups of 8 episodes over 60 states a task, half of the episodes successful; keys are as long as observations."""
    rng = random.Random(0)

    def episode(group: int) -> CreditEpisode:
        keys = [f"task {group}: you are in front of a drawer {rng.randrange(60)}, it is closed" for _ in range(steps)]
        return CreditEpisode([0.0] * (steps - 1) + [10.0 * rng.randrange(2)], keys, "end", terminated=True)

    return [CreditGroup(str(group), [episode(group) for _ in range(8)]) for group in range(groups)]


def main() -> None:
    """Print the median and the best of several rounds for growing batches."""
    algorithm = Gagpo(GagpoSettings(), min_std=0.5)
    for groups, steps in [(16, 50), (32, 50), (64, 50), (128, 50), (16, 400)]:
        batch = made_up_batch(groups, steps)
        seconds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            algorithm.credit(batch)
            seconds.append(time.perf_counter() - start)
        count = groups * 8 * steps
        median, best = statistics.median(seconds), min(seconds)
        print(
            f"{groups * 8:5d} episodes × {steps:3d} steps = {count:6d} steps: median {median * 1e3:6.2f} ms, "
            f"best {best * 1e3:6.2f} ms, {median / count * 1e9:6.0f} ns a step"
        )


if __name__ == "__main__":
    main()
