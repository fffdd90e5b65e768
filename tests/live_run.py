"""A run of the whole system in a maze, stopped where its groups still lie in Redis: nothing of it is made up."""

import json
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from shared.buffer.codec import decode_group
from shared.buffer.keys import JobKeys
from shared.prompting import PolicyTokenizer
from shared.run_layout import RunFiles
from shared.trajectory import Group
from tests.job_service import TrainerUnderTest
from tests.processes import start_env_server, start_redis, start_service
from tests.training_system import ACTIONS, RECIPE, start_following_orchestrator, write_maze_policy

JOB = "live"
MAZE = {"GAGPO_ENV_ENVIRONMENTS": '{"maze": "tests.environments.small_maze:SmallMazeFamily"}'}
GROUPS, EPISODES = 4, 8
STOP_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What is around the trainer service and the env server."""

    model: Path
    redis_url: str
    policy_url: str


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A job that waits for its next groups, for nobody makes them any more."""

    url: str
    """The trainer service's."""
    model: Path
    step: int
    """The latest training step that is done, from 0; at least 1, so that it began with weights that had moved."""
    weights: Path
    """Folder of the weights that its update began with."""
    groups: dict[int, Group]
    """That training step's, by index, from Redis."""


@contextmanager
def start_parts(folder: Path) -> Iterator[Parts]:
    """Redis, and a policy that answers at random and takes weights without using them."""
    model = write_maze_policy(folder / "model")
    tokenizer = PolicyTokenizer(model)
    answers = json.dumps([[*tokenizer.encode(action), 2] for action in ACTIONS])
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        variables = {"ANSWERS": answers, "MODEL": str(model)}
        policy = running.enter_context(start_service("tests.random_policy_server", variables))
        yield Parts(model, redis_url, policy.url)


@contextmanager
def start_live_run(parts: Parts, folder: Path) -> Iterator[LiveRun]:
    """Train two steps and more, then stop making groups. No checkpoint covers them, so Redis still has them."""
    with ExitStack() as running:
        env = running.enter_context(start_env_server(**MAZE, REDIS_URL=parts.redis_url))
        variables = {
            "REDIS_URL": parts.redis_url,
            "GAGPO_TRAINER_RUNS": str(folder / "runs"),
            "GAGPO_TRAINER_ENV_URL": env.url,
            "GAGPO_TRAINER_POLICY_URL": parts.policy_url,
            "GAGPO_TRAINER_THREADS": "1",
        }
        process = running.enter_context(start_service("services.trainer.server", variables, deadline_s=180))
        trainer = TrainerUnderTest(process, process.url + "/v1/jobs")
        log = folder / "orchestrator.log"
        with start_following_orchestrator(log, env.url, parts.policy_url, parts.redis_url):
            answer = trainer.submit(_recipe(parts.model), JOB)
            assert answer.status_code == 201, answer.text
            trainer.wait_for_version(JOB, 2)
        step = _last_step(trainer, parts.redis_url)
        groups = {index: group for (of, index), group in _groups(parts.redis_url).items() if of == step}
        weights = RunFiles(folder / "runs" / JOB).path / "weights" / f"v{step:06d}"
        yield LiveRun(process.url, parts.model, step, weights, groups)


def _recipe(model: Path) -> dict[str, object]:
    """One minibatch a training step and log-probs of the policy server: every ratio is of the weights before it."""
    text = RECIPE.format(model=model, staleness=0, steps=100, checkpoint_every=100, transport="file")
    document = tomllib.loads(text)
    document["training"] |= {"minibatches": 1, "old_logprobs": "rollout"}
    document["rollout"] |= {"groups_per_step": GROUPS, "group_size": EPISODES}
    document["algorithm"] = {"name": "gagpo", "gamma": 0.95, "lam": 0.8, "clip_low": 0.2, "clip_high": 0.2}
    document["reward"] = {"success": 10.0, "invalid_action_penalty": 0.1}
    document["evaluation"] = {"episodes": 0}
    return document


def _last_step(trainer: TrainerUnderTest, redis_url: str) -> int:
    """The latest training step, once the trainer has used up all groups that were made."""
    give_up = time.monotonic() + STOP_DEADLINE_S
    while True:
        done = len(trainer.get(f"{JOB}/metrics").text.splitlines())
        waiting = sum(step >= done for step, _ in _groups(redis_url))
        if waiting < GROUPS:
            return done - 1
        assert time.monotonic() < give_up, f"{done} training steps are done, and {waiting} groups wait for the next"
        time.sleep(0.1)


def _groups(redis_url: str) -> dict[tuple[int, int], Group]:
    """(training step, index) → group, of all that lie in Redis."""
    with redis.Redis.from_url(redis_url) as client:
        entries = client.xrange(JobKeys(JOB).groups)
    return {
        (int(fields[b"step"]), int(fields[b"index"])): decode_group(fields[b"group"])
        for _, fields in entries
        if b"group" in fields
    }
