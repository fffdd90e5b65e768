"""How long credit assignment takes for each algorithm, and that it grows linearly: ``python benchmarks/advantages.py``.

The target is 10 ms for 128 episodes of 50 steps (16 groups of 8). Times are of the CPU, one thread: what an idle
machine takes. Joining similar observations is timed apart: it
grows with the square of a group's distinct observations.
"""

import random
import statistics
import time
from collections.abc import Callable

from services.trainer.algorithms import CreditEpisode, CreditGroup, algorithm_of
from services.trainer.algorithms.clustering import representatives
from services.trainer.algorithms.diagnostics import diagnose
from shared.recipe import AnyAlgorithm, GagpoSettings, GigpoSettings, GrpoSettings, PpoSettings, RlooSettings

ROUNDS = 15
SIZES = [(16, 50), (32, 50), (64, 50), (128, 50), (16, 400)]
ALGORITHMS: list[AnyAlgorithm] = [GagpoSettings(), GigpoSettings(), GrpoSettings(), RlooSettings(), PpoSettings()]


def made_up_batch(groups: int, steps: int) -> list[CreditGroup]:
    """Groups of 8 episodes over 60 states a task, half of the episodes successful; keys are as long as observations.

    Each state looks the same and is one of two in truth, and a critic has an opinion of each step.
    """
    rng = random.Random(0)

    def episode(group: int) -> CreditEpisode:
        keys = [f"task {group}: you are in front of a drawer {rng.randrange(60)}, it is closed" for _ in range(steps)]
        return CreditEpisode(
            rewards=[0.0] * (steps - 1) + [10.0 * rng.randrange(2)],
            state_keys=keys,
            final_state_key="end",
            terminated=True,
            observations=keys,
            final_observation="you won",
            true_states=[f"{key} {rng.randrange(2)}" for key in keys],
            values=[10.0 * rng.random() for _ in keys],
        )

    return [CreditGroup(str(group), [episode(group) for _ in range(8)]) for group in range(groups)]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """The median and the best of several rounds, in seconds of CPU."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), min(seconds)


def main() -> None:
    """Print how long growing batches take with every algorithm, then what goes beside it."""
    for groups, steps in SIZES:
        batch = made_up_batch(groups, steps)
        count = groups * 8 * steps
        for settings in ALGORITHMS:
            algorithm = algorithm_of(settings, min_std=0.5)
            median, best = timed(lambda algorithm=algorithm, batch=batch: algorithm.credit(batch))
            print(
                f"{groups * 8:5d} episodes × {steps:3d} steps = {count:6d} steps  {settings.name:5}: "
                f"median {median * 1e3:6.2f} ms, best {best * 1e3:6.2f} ms, {median / count * 1e9:5.0f} ns a step"
            )
    batch = made_up_batch(*SIZES[0])
    credits = algorithm_of(GagpoSettings(), min_std=0.5).credit(batch)
    _, best = timed(lambda: diagnose(credits, [False] * len(batch)))
    print(f"diagnostics of {SIZES[0][0]} groups: best {best * 1e3:.2f} ms")
    for distinct in (60, 240, 960):
        texts = [f"you are in room {n // 10}, in front of drawer {n % 10}, it is closed" for n in range(distinct)]
        representatives(texts, 0.9)  # the library is loaded at first use
        _, best = timed(lambda texts=texts: representatives(texts, 0.9))
        print(f"clustering of a group's {distinct:3d} distinct observations: best {best * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
