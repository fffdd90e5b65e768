"""``python -m services.trainer``: train one job; the same command again goes on from the last checkpoint.

On several processes: ``torchrun --nproc-per-node N -m services.trainer``, with any N at every start.

Exit codes: 0 the job is complete (or was cancelled), 128 + n stopped by signal n and resumable, 1 failed.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from services.trainer.distributed import World, is_lost_peer, join_world, set_threads
from services.trainer.failures import explained
from services.trainer.learner import End, follow
from services.trainer.outputs import Outputs, RunPlace
from services.trainer.stopping import StopFlag, StoppedError
from services.trainer.trackers import check_trackers
from services.trainer.worker import Worker
from shared.buffer import GroupReader
from shared.child_process import die_with_parent
from shared.recipe import Recipe, load_recipe
from shared.schemas.job import JobState
from shared.telemetry import configure_logging, log_context

log = logging.getLogger("services.trainer")


def main(argv: list[str] | None = None) -> int:
    """Parse arguments, train, and return the exit code."""
    arguments = _parser().parse_args(argv)
    configure_logging("trainer")
    set_threads(arguments.threads)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        die_with_parent()  # torchrun, when it is killed, leaves its processes behind
    place = RunPlace(
        job=arguments.job,
        run_dir=arguments.run_dir.resolve(),
        redis_url=arguments.redis_url,
        policy_urls=tuple(url for url in arguments.policy_url.split(",") if url),
        weights_host=arguments.weights_host,
    )
    flag = StopFlag()
    flag.listen()
    with log_context(job=place.job):
        return train(place, arguments.recipe, flag, arguments.step_deadline_s)


def train(place: RunPlace, recipe_file: Path, flag: StopFlag, step_deadline_s: float) -> int:
    """Train a job to its end, as the process that torchrun made this one. Returns the exit code."""
    recipe = load_recipe(recipe_file)
    wait_s = max(step_deadline_s, 2 * recipe.weights.push_timeout_s)
    with join_world(wait_s, sharded=recipe.model.dtype == "bfloat16") as world:
        if world.rank > 0:
            return follow(recipe, world, flag)
        exit_code = lead(place, recipe, flag, step_deadline_s, world)
        world.tell(End(exit_code))
        return exit_code


def lead(place: RunPlace, recipe: Recipe, flag: StopFlag, step_deadline_s: float, world: World) -> int:
    """Train a job to its end and tell Redis how it ended. Returns the exit code."""
    with Outputs(place, recipe, flag) as outputs, GroupReader(place.redis_url, place.job) as reader:
        try:
            check_trackers(recipe.tracking)
            outputs.channel.check_eviction_policy()
            ending = Worker(recipe, reader, outputs, flag, step_deadline_s, world).run()
        except StoppedError as stopped:
            log.info("%s; the same command goes on from the last checkpoint", stopped)
            outputs.end(None, str(stopped))
            return 0 if stopped.signal_number is None else 128 + stopped.signal_number
        except Exception as error:
            state = None if is_lost_peer(error) else JobState.FAILED
            reason = explained(error, place.run_dir)
            if reason is not None:  # said first: where a disk is full, Redis may not take the job's end
                log.critical("%s", reason)
            outputs.end(state, reason or f"{type(error).__name__}: {error}")
            if reason is None:
                raise
            return 1
        outputs.end(JobState.COMPLETED, ending.value)
        log.info("complete: %s", ending.value)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m services.trainer", description=__doc__)
    parser.add_argument("--job", required=True, help="id of the job; its keys in Redis begin with gagpo:<job>:")
    parser.add_argument("--recipe", required=True, type=Path, help="TOML recipe of the job")
    parser.add_argument("--run-dir", required=True, type=Path, help="folder for checkpoints, weights and metrics")
    parser.add_argument("--redis-url", default=os.environ.get("REDIS_URL"), required="REDIS_URL" not in os.environ)
    parser.add_argument("--policy-url", required=True, help="base URLs of the policy servers, separated by commas")
    parser.add_argument(
        "--weights-host",
        default="127.0.0.1",
        help="address at which policy servers reach this process when weights.transport is http",
    )
    parser.add_argument("--step-deadline-s", type=float, default=3600.0, help="longest wait for a step's groups")
    parser.add_argument("--threads", type=int, default=0, help="torch threads of a process; 0: its share of the cores")
    return parser


if __name__ == "__main__":
    sys.exit(main())
