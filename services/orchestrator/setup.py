"""Puts the orchestrator's parts together, once the servers are there and fit the recipe."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from services.orchestrator.environments import EnvironmentPool, SetupError
from services.orchestrator.episode import EpisodePlayer
from services.orchestrator.http import ReplicaSet
from services.orchestrator.policy import OfJob, PolicyPool, Sampling, any_weights
from services.orchestrator.task_order import TaskSource
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import EnvironmentSettings, Recipe
from shared.schemas.environment import EnvironmentDescription
from shared.service import Scope


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers are, and how long to be patient with them."""

    env_urls: list[str]
    policy_urls: list[str]
    request_timeout_s: float
    request_deadline_s: float


@dataclass(frozen=True, slots=True)
class ServerSets:
    """The servers, connected to."""

    environments: ReplicaSet
    policy: ReplicaSet
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Players:
    """Everything that playing episodes takes."""

    environments: EnvironmentPool
    policy: PolicyPool
    by_environment: dict[str, EpisodePlayer]
    """Name of the environment → who plays it."""
    descriptions: dict[str, EnvironmentDescription]


@asynccontextmanager
async def connect_servers(servers: Servers) -> AsyncIterator[ServerSets]:
    """Look up who is there, and go on doing so. Raises ValueError for what is no URL."""
    timeout_s, deadline_s = servers.request_timeout_s, servers.request_deadline_s
    async with (
        ReplicaSet(servers.env_urls, timeout_s, deadline_s, Scope.ENVIRONMENTS) as environments,
        ReplicaSet(servers.policy_urls, timeout_s, deadline_s, Scope.GENERATE) as policy,
    ):
        yield ServerSets(environments, policy, deadline_s)


@asynccontextmanager
async def open_players(recipe: Recipe, sets: ServerSets, of_job: OfJob = any_weights) -> AsyncIterator[Players]:
    """Who plays a recipe's environments.

    ``of_job`` tells the job's weights from others. Raises `SetupError` where the servers do not fit together, and what
    the prompt's template or the tokenizer raise.
    """
    tokenizer = PolicyTokenizer(recipe.model.path)
    builders = [PromptBuilder(environment.prompt, tokenizer) for environment in recipe.environments]
    async with AsyncExitStack() as stack:
        environments = EnvironmentPool(sets.environments)
        stack.push_async_callback(environments.leave)
        policy = PolicyPool(sets.policy, sets.deadline_s, of_job)
        stack.push_async_callback(policy.leave)
        by_environment = {
            wanted.name: EpisodePlayer(
                environments, policy, builder, Sampling.of(wanted.sampling, builder.stop_token_ids)
            )
            for wanted, builder in zip(recipe.environments, builders, strict=True)
        }
        yield Players(environments, policy, by_environment, await environments.describe())


def task_sources(
    environments: Sequence[EnvironmentSettings], descriptions: Mapping[str, EnvironmentDescription], held_out: bool
) -> list[TaskSource]:
    """Their training splits, or their evaluation splits. Raises `SetupError` where a server lacks one."""
    sources = []
    for place, wanted in enumerate(environments):
        field = f"environments.{place}"
        described = descriptions.get(wanted.name)
        if described is None:
            raise SetupError(f"{field}.name = {wanted.name!r}: the env server has {sorted(descriptions)}")
        split = wanted.eval_split if held_out else wanted.split
        size = described.splits.get(split, 0)
        if size < 1:
            raise SetupError(
                f"{field}.{'eval_split' if held_out else 'split'} = {split!r}: the env server has no task in it; "
                f"its splits are {described.splits}"
            )
        sources.append(TaskSource(wanted.name, split, size, wanted.weight))
    return sources
