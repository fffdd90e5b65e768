"""Puts an evaluation's parts together: the env servers, whoever plays, and the tasks to play."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from services.orchestrator.environments import EnvironmentPool, SetupError
from services.orchestrator.episode import Sampler
from services.orchestrator.evaluation.policies import ExpertFollower, Policy, SampledPolicy, UniformPolicy
from services.orchestrator.http import ReplicaSet
from services.orchestrator.policy import OfJob, PolicyPool, Sampling, any_weights
from services.orchestrator.setup import Servers, task_sources
from services.orchestrator.task_order import TaskSource
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import EnvironmentSettings
from shared.schemas.environment import EnvironmentDescription
from shared.schemas.evaluation import EndpointPolicy, EvaluationSpec, ExpertPolicy, RandomPolicy, ServedPolicy
from shared.service import Scope


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Everything that playing an evaluation's episodes takes."""

    environments: EnvironmentPool
    policies: Mapping[str, Policy]
    """Name of the environment → who plays it."""
    sources: list[TaskSource]
    """The splits to draw from, one an environment."""


@asynccontextmanager
async def open_evaluator(spec: EvaluationSpec, servers: Servers) -> AsyncIterator[Evaluator]:
    """Connect to the servers. No policy server is asked of where the policy is none of theirs.

    Raises `SetupError` where the servers do not fit the spec, and what the prompt's template or the tokenizer raise.
    """
    timeout_s, deadline_s = servers.request_timeout_s, servers.request_deadline_s
    async with AsyncExitStack() as stack:
        replicas = ReplicaSet(servers.env_urls, timeout_s, deadline_s, Scope.ENVIRONMENTS)
        environments = EnvironmentPool(await stack.enter_async_context(replicas))
        stack.push_async_callback(environments.leave)
        descriptions = await environments.describe()
        wanted = [environment.settings for environment in spec.environments]
        sources = task_sources(wanted, descriptions, held_out=True)
        _check_data(spec, descriptions)
        policies = await _open_policies(spec, wanted, servers, stack)
        yield Evaluator(environments, policies, sources)


async def _open_policies(
    spec: EvaluationSpec, wanted: list[EnvironmentSettings], servers: Servers, stack: AsyncExitStack
) -> Mapping[str, Policy]:
    match spec.policy:
        case ServedPolicy():
            timeout_s, deadline_s = servers.request_timeout_s, servers.request_deadline_s
            replicas = ReplicaSet(servers.policy_urls, timeout_s, deadline_s, Scope.GENERATE)
            pool = PolicyPool(await stack.enter_async_context(replicas), deadline_s, _these_weights(spec.policy.digest))
            stack.push_async_callback(pool.leave)
            tokenizer = PolicyTokenizer(spec.policy.model)
            return {one.name: _sampled(pool, one, tokenizer, spec.temperature) for one in wanted}
        case RandomPolicy():
            return {one.name: UniformPolicy() for one in wanted}
        case ExpertPolicy():
            return {one.name: ExpertFollower() for one in wanted}
        case EndpointPolicy():
            from services.orchestrator.evaluation.endpoint import Endpoint, EndpointPlayer  # its library loads slowly

            endpoint = await stack.enter_async_context(Endpoint(spec.policy, servers))
            return {one.name: EndpointPlayer(endpoint, one, spec.temperature) for one in wanted}


def _sampled(
    pool: PolicyPool, wanted: EnvironmentSettings, tokenizer: PolicyTokenizer, temperature: float
) -> SampledPolicy:
    builder = PromptBuilder(wanted.prompt, tokenizer)
    sampling = Sampling.of(wanted.sampling, builder.stop_token_ids, temperature)
    return SampledPolicy(Sampler(pool, builder, sampling))


def _these_weights(digest: str | None) -> OfJob:
    if digest is None:
        return any_weights

    async def are_these(_: int, served: str) -> bool:
        return served == digest

    return are_these


def _check_data(spec: EvaluationSpec, descriptions: Mapping[str, EnvironmentDescription]) -> None:
    for environment in spec.environments:
        name, wanted = environment.settings.name, environment.data_digest
        there = descriptions[name].data_digest
        if wanted is not None and there != wanted:
            raise SetupError(f"the env server's data of {name} is not what was to be played: {there}, not {wanted}")
