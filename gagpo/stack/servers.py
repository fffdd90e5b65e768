"""The servers that a job plays and samples on: Redis, the env server and the policy server."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

from gagpo.ports import free_port
from gagpo.redis_server import RedisServer, check_given_redis, start_redis
from gagpo.stack.processes import ServiceDiedError, ServiceSpec
from gagpo.stack.service_set import ServiceSet
from shared.recipe import Recipe
from shared.schemas.policy import WeightFile, WeightPush
from shared.service import Scope, authorization
from shared.weights_digest import digest_of_folder

_PUSH_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What is served. Jobs with equal settings can use the same servers one after another."""

    model: Path
    longest_sequence: int
    """Most tokens of a prompt and its answer together."""
    environments: tuple[str, ...] | None
    """Names of the environments to serve; None serves every one that is registered."""
    variables: dict[str, str] = field(default_factory=dict)
    """More variables for the env server, such as ``ALFWORLD_DATA``."""

    @classmethod
    def of(cls, recipe: Recipe, variables: dict[str, str], serve_all: bool = False) -> Self:
        """What a recipe needs; with ``serve_all`` every environment, not just the recipe's."""
        names = None if serve_all else tuple(one.name for one in recipe.environments)
        return cls(recipe.model.path, recipe.longest_sequence, names, variables)


class LocalServers(ServiceSet):
    """Redis, env server and policy server as processes of this machine, for one job or for several in turn.

    Leaving the ``with`` block stops everything that was started.
    """

    def __init__(
        self,
        settings: ServerSettings,
        folder: Path,
        *,
        redis_url: str | None = None,
        weights_pointer: Path | None = None,
        env_port: int | None = None,
        policy_port: int | None = None,
    ) -> None:
        """Starts nothing yet. Logs go to ``folder/logs``.

        Without a ``redis_url`` a Redis is started whose files live in ``folder/redis``. A policy server that starts
        loads the weights that ``weights_pointer`` names, where it is there.
        """
        self.settings = settings
        self._folder = folder
        self._weights_pointer = weights_pointer
        super().__init__(folder / "logs")
        self._redis: RedisServer | None = None
        self.env_url = f"http://127.0.0.1:{env_port or free_port()}"
        self.policy_url = f"http://127.0.0.1:{policy_port or free_port()}"
        self.redis_url = redis_url or ""

    def start(self, tick: Callable[[str], None] | None = None) -> None:
        """Start them, and wait until they are ready; ``tick(name)`` is called meanwhile.

        Raises `ServiceDiedError`, `RedisServerError`, and `EvictionPolicyError` for a Redis that may drop groups.
        """
        if not self.redis_url:
            self._redis = start_redis(self._folder / "redis")
            self.redis_url = self._redis.url
        else:
            check_given_redis(self.redis_url)
        served = self.settings
        variables = {"REDIS_URL": self.redis_url, **served.variables}
        self._processes.start(env_server_spec(self.env_url, served.environments, variables))
        self._processes.start(
            policy_server_spec(self.policy_url, served.model, served.longest_sequence, self._weights_pointer)
        )
        self._processes.wait_ready(tick)

    def stop(self) -> None:
        """Stop the servers, then the Redis that they used."""
        super().stop()
        if self._redis is not None:
            self._redis.stop()

    def serve_first_weights(self) -> None:
        """Have the policy server serve the model's own weights as version 0, whatever a job before has left there.

        Raises `ServiceDiedError` when it does not take them.
        """
        model = self.settings.model
        push = WeightPush(version=0, digest=digest_of_folder(model), source=WeightFile(path=str(model)))
        answer = httpx.post(
            f"{self.policy_url}/v1/weights",
            json=push.model_dump(mode="json"),
            headers=authorization(Scope.WEIGHTS),
            timeout=_PUSH_DEADLINE_S,
        )
        if answer.status_code != httpx.codes.OK:
            raise ServiceDiedError(f"the policy server did not take the weights of {model}: {answer.text}")

    def evaluation_argv(self, recipe_file: Path, out: Path) -> list[str]:
        """The command that evaluates the policy being served and writes the report to ``out``."""
        return [
            *module_argv("services.orchestrator.evaluate"),
            *("--recipe", str(recipe_file), "--env-url", self.env_url),
            *("--policy-url", self.policy_url, "--out", str(out)),
        ]


def env_server_spec(url: str, names: Sequence[str] | None, variables: Mapping[str, str]) -> ServiceSpec:
    """An env server at ``url`` that serves the environments ``names``, or every one that is registered."""
    serve = {} if names is None else {"GAGPO_ENV_SERVE": json.dumps(list(names))}
    return ServiceSpec(
        name="env-server",
        argv=[*module_argv("services.env_server"), "--port", port_of(url)],
        environment={**serve, **variables},
        ready_url=f"{url}/readyz",
        ready_deadline_s=300.0,
    )


def policy_server_spec(url: str, model: Path, longest_sequence: int, weights_pointer: Path | None) -> ServiceSpec:
    """A policy server at ``url``; what its arguments mean is said at `ServerSettings` and `LocalServers`."""
    return ServiceSpec(
        name="policy-server",
        argv=[
            *module_argv("services.policy_server"),
            *("--model", str(model), "--port", port_of(url)),
            *("--max-model-len", str(longest_sequence)),
            *([] if weights_pointer is None else ["--weights-pointer", str(weights_pointer)]),
        ],
        ready_url=f"{url}/readyz",
        ready_deadline_s=900.0,
    )


def module_argv(name: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-m", name]


def port_of(url: str) -> str:
    """The port at the end of a service's URL."""
    return url.rsplit(":", 1)[1]
