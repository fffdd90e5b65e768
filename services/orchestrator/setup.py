"""Puts the orchestrator's parts together, once the servers are there and fit the recipe."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from services.orchestrator.environments import EnvironmentPool, SetupError
from services.orchestrator.episode import EpisodePlayer
from services.orchestrator.http import ReplicaSet
from services.orchestrator.policy import PolicyPool, Sampling
from services.orchestrator.task_order import TaskSource
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import Recipe
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
class Players:
    """Everything that playing episodes takes."""

    environments: EnvironmentPool
    by_environment: dict[str, EpisodePlayer]
    """Name of the environment → who plays it."""
    descriptions: dict[str, EnvironmentDescription]


@asynccontextmanager
async def open_players(recipe: Recipe, servers: Servers, temperature: float | None = None) -> AsyncIterator[Players]:
    """Connect to the servers; ``temperature`` replaces the recipe's sampling temperature.

    Raises `SetupError` where the servers do not fit together, and what the prompt's template or the tokenizer raise.
    """
    tokenizer = PolicyTokenizer(recipe.model.path)
    builders = [PromptBuilder(environment.prompt, tokenizer) for environment in recipe.environments]
    async with AsyncExitStack() as stack:
        env_replicas = await stack.enter_async_context(
            ReplicaSet(servers.env_urls, servers.request_timeout_s, servers.request_deadline_s, Scope.ENVIRONMENTS)
        )
        policy_replicas = await stack.enter_async_context(
            ReplicaSet(servers.policy_urls, servers.request_timeout_s, servers.request_deadline_s, Scope.GENERATE)
        )
        environments = EnvironmentPool(env_replicas)
        policy = PolicyPool(policy_replicas, servers.request_deadline_s)
        by_environment = {
            wanted.name: EpisodePlayer(
                environments, policy, builder, Sampling.of(wanted.sampling, builder.stop_token_ids, temperature)
            )
            for wanted, builder in zip(recipe.environments, builders, strict=True)
        }
        yield Players(environments, by_environment, await environments.describe())


def task_sources(recipe: Recipe, descriptions: dict[str, EnvironmentDescription], held_out: bool) -> list[TaskSource]:
    """The recipe's training splits, or its evaluation splits. Raises `SetupError` where a server lacks one."""
    sources = []
    for place, wanted in enumerate(recipe.environments):
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
