"""The orchestrator as a process, between a real env server, a real Redis and a policy that answers at random.

The tests play the trainer.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from shared.buffer import GroupReader, JobChannel
from shared.prompting import PolicyTokenizer
from shared.trajectory import Group
from tests.processes import (
    MAZE_AND_BEACH,
    REPOSITORY,
    free_port,
    start_env_server,
    start_redis,
    start_service,
    without_settings,
)
from tests.tokenizers import write_tokenizer

WORDS = "north south take coin You walk take coin Nothing happens wake up in a maze > [ ]"
RECIPE = """
name = "maze"
seed = 7
[model]
path = "model"
[[environments]]
name = "maze"
eval_split = "valid"
max_steps = 12
state_key = "simulator"
[prompt]
template = "compact"
max_tokens = 200
[sampling]
max_tokens = 4
[rollout]
groups_per_step = 3
group_size = 4
concurrency = 6
episode_retries = 2
max_staleness = {staleness}
[training]
steps = 3
minibatches = 1
"""


QUICK_TAKE_OVER = {**without_settings(), "GAGPO_ORCHESTRATOR_LEASE_S": "2"}
"""Variables of an orchestrator whose groups others make two seconds after its death."""


@dataclass(slots=True)
class Stack:
    """The servers around an orchestrator, and the trainer's ends of the buffer."""

    folder: Path
    job: str
    redis_url: str
    env_urls: str
    policy_url: str
    channel: JobChannel

    @property
    def recipe(self) -> Path:
        """The job's recipe."""
        return self.folder / "recipe.toml"

    def write_recipe(self, staleness: int = 0, more: str = "") -> None:
        """``more`` is TOML to put behind the recipe."""
        self.recipe.write_text(RECIPE.format(staleness=staleness) + more)

    def control(self, **settings: int | bool | str) -> None:
        """Tell the stand-in for the policy server how to behave."""
        httpx.post(self.policy_url + "/control", content=json.dumps(settings)).raise_for_status()

    def publish(self, version: int) -> None:
        """As the trainer does: first the weights, then their version."""
        self.control(version=version)
        self.channel.set_policy_version(version)

    def requests(self) -> list[dict[str, object]]:
        """What it was asked."""
        found: list[dict[str, object]] = httpx.get(self.policy_url + "/requests").json()
        return found


@contextmanager
def start_servers(folder: Path) -> Iterator[Stack]:
    """The servers around orchestrators; a job of one's own comes from `make_stack`."""
    model = write_tokenizer(folder / "model", WORDS)
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        env = running.enter_context(start_env_server(**MAZE_AND_BEACH, REDIS_URL=redis_url))
        policy = running.enter_context(start_policy(model))
        yield make_stack(folder, "none", redis_url, env.url, policy)


def make_stack(folder: Path, job: str, redis_url: str, env_urls: str, policy_url: str) -> Stack:
    """A job with a recipe of its own."""
    made = Stack(folder, job, redis_url, env_urls, policy_url, JobChannel(redis_url, job))
    made.write_recipe()
    return made


@contextmanager
def start_policy(model: Path, delay_s: float = 0.0) -> Iterator[str]:
    """A stand-in for the policy server that answers with words of the maze; its URL."""
    tokenizer = PolicyTokenizer(model)
    answers = [[*tokenizer.encode(action), 2] for action in ("north", "north", "south", "take coin", "coin")]
    variables = {"ANSWERS": json.dumps(answers), "DELAY_S": str(delay_s)}
    with start_service("tests.random_policy_server", variables) as service:
        yield service.url


@contextmanager
def start_orchestrator(stack: Stack, follow: bool = False) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A running orchestrator and its URL: for the stack's job, or for whatever job is active."""
    port = free_port()
    which = ["--follow"] if follow else ["--job", stack.job, "--recipe", str(stack.recipe)]
    command = [sys.executable, "-m", "services.orchestrator", *which, "--port", str(port)]
    command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--redis-url", stack.redis_url]
    with (stack.folder / "orchestrator.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=QUICK_TAKE_OVER, stdout=log, stderr=log)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def read_groups(stack: Stack, step: int, count: int = 3) -> list[Group]:
    """The groups of a training step, as the trainer reads them."""
    with GroupReader(stack.redis_url, stack.job) as reader:
        return reader.read_step(step, count, 40)


def open_sessions(stack: Stack) -> int:
    """How many sessions the env server holds."""
    text = httpx.get(stack.env_urls + "/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("gagpo_env_sessions ")]
    return int(float(line.split()[1]))
