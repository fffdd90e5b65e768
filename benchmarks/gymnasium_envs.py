"""Steps per second of `gagpo.envs`, one episode at a time against many: ``python -m benchmarks.gymnasium_envs``.

Starts an env server of its own and steps generated ALFWorld games with admissible actions. ``CPU`` counts this
process's alone: what the client costs, on however busy a machine.
"""

import argparse
import time
from collections.abc import Callable

import gymnasium

import gagpo.envs


def main() -> None:
    """Measure, and print a line for each number of episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="steps of the single one, and turns of the others")
    parser.add_argument("--workers", type=int, default=2, help="worker processes of the env server")
    arguments = parser.parse_args()
    with gagpo.envs.local_server("alfworld", workers=arguments.workers) as url:
        print(f"single: {_rate(arguments.steps, _single(url, arguments.steps))}")
        for num_envs in (8, 64):
            turns = max(arguments.steps // num_envs, 20)
            print(f"vector of {num_envs}: {_rate(turns * num_envs, _vector(url, num_envs, turns))}")


def _single(url: str, steps: int) -> Callable[[], None]:
    env = gymnasium.make("gagpo/ALFWorld-v0", url=url, max_steps=steps + 1)
    _, first = env.reset(options={"index": 0})

    def run() -> None:
        info = first
        for turn in range(steps):
            *_, info = env.step(info["admissible_actions"][turn % 3])
        env.close()

    return run


def _vector(url: str, num_envs: int, turns: int) -> Callable[[], None]:
    env = gymnasium.make_vec("gagpo/ALFWorld-v0", num_envs=num_envs, url=url, max_steps=turns + 1)
    _, first = env.reset(options={"index": 0})

    def run() -> None:
        info = first
        for turn in range(turns):
            *_, info = env.step([actions[turn % 3] for actions in info["admissible_actions"]])
        env.close()

    return run


def _rate(steps: int, run: Callable[[], None]) -> str:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return f"{steps} steps, {steps / wall:,.0f} a second; {1000 * cpu / steps:.2f} ms of CPU each"


if __name__ == "__main__":
    main()
