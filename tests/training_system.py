"""Everything real around the trainer: Redis, an env server with the maze, vLLM with a tiny policy, the orchestrator."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from shared.prompting import PolicyTokenizer
from tests.policy_processes import PolicyServer, start_policy_server, tiny_config
from tests.processes import REPOSITORY, free_port, start_env_server, start_redis
from tests.tokenizers import write_tokenizer

WORDS = "north south take coin You walk take coin Nothing happens wake up in a maze > [ ]"
ACTIONS = ("north", "north", "south", "take coin", "coin")
RECIPE = """
name = "maze"
seed = 7
[model]
path = "{model}"
[[environments]]
name = "maze"
eval_split = "valid"
max_steps = 10
state_key = "simulator"
[prompt]
template = "compact"
max_tokens = 200
[sampling]
max_tokens = 4
[rollout]
groups_per_step = 4
group_size = 4
concurrency = 16
max_staleness = {staleness}
[optimizer]
learning_rate = 3e-4
[training]
steps = {steps}
minibatches = 2
checkpoint_every = {checkpoint_every}
keep_checkpoints = 10
[weights]
transport = "{transport}"
"""


@dataclass(frozen=True, slots=True)
class MazeSystem:
    """The running servers."""

    model: Path
    redis_url: str
    env_url: str
    policy: PolicyServer

    def write_recipe(
        self, folder: Path, *, steps: int, checkpoint_every: int = 1, staleness: int = 0, transport: str = "file"
    ) -> Path:
        """A recipe for the maze with the tiny policy, in a file."""
        file = folder / "recipe.toml"
        text = RECIPE.format(
            model=self.model,
            steps=steps,
            checkpoint_every=checkpoint_every,
            staleness=staleness,
            transport=transport,
        )
        file.write_text(text)
        return file

    @contextmanager
    def orchestrator(self, job: str, recipe: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The orchestrator as a process; killed at the end if it still runs."""
        command = [sys.executable, "-m", "services.orchestrator", "--job", job, "--recipe", str(recipe)]
        command += ["--env-url", self.env_url, "--policy-url", self.policy.url, "--redis-url", self.redis_url]
        with (recipe.parent / "orchestrator.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--port", str(free_port())], cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)


@contextmanager
def start_following_orchestrator(log: Path, env_url: str, policy_url: str, redis_url: str) -> Iterator[None]:
    """An orchestrator that serves whatever job is active; told to stop at the end."""
    command = [sys.executable, "-m", "services.orchestrator", "--follow", "--port", str(free_port())]
    command += ["--env-url", env_url, "--policy-url", policy_url, "--redis-url", redis_url]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(15)


@contextmanager
def start_maze_system(folder: Path) -> Iterator[MazeSystem]:
    """Redis, the env server and vLLM, each a process."""
    model = write_maze_policy(folder / "model")
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        env = running.enter_context(start_env_server(REDIS_URL=redis_url))
        policy = running.enter_context(start_policy_server(model, "--max-model-len", "256"))
        yield MazeSystem(model, redis_url, env.url, policy)


def write_maze_policy(folder: Path) -> Path:
    """A tiny policy that answers any prompt with one of the maze's actions."""
    return write_answering_policy(folder, WORDS, ACTIONS)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """For tiny models: on a busy machine threads that wait for each other are slower than one, by a hundred times."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_torch_thread()
def write_answering_policy(folder: Path, words: str, actions: Sequence[str]) -> Path:
    """A tiny Llama that was taught, in a second or two, to answer any prompt with one of the actions."""
    write_tokenizer(folder, words)
    tokenizer = PolicyTokenizer(folder)
    torch.manual_seed(0)
    config = tiny_config(4 + len(dict.fromkeys(words.split())), tied=False)
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        for action in actions:
            answer = torch.tensor([*tokenizer.encode(action), 2])
            prompts = torch.randint(3, config.vocab_size, (8, int(torch.randint(10, 120, ()))))
            ids = torch.cat([prompts, answer.expand(8, -1)], dim=1)
            logprobs = model(input_ids=ids).logits[:, -len(answer) - 1 : -1].log_softmax(-1)
            torch.autograd.backward(-logprobs.gather(-1, answer.expand(8, -1).unsqueeze(-1)).mean())
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    # `save_pretrained` wrote a generation config of its own; the tokenizer's says where an answer ends.
    return write_tokenizer(folder, words)
