"""The servers that an evaluation needs, started one by one as they are needed."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx

from gagpo.evaluating.errors import EvaluationError
from gagpo.ports import free_port
from gagpo.stack import ServiceSet
from gagpo.stack.servers import env_server_spec, policy_server_spec
from shared.schemas.evaluation import EvaluationSpec, ServedPolicy
from shared.schemas.policy import WeightState
from shared.service import Scope, authorization

_LOOK_DEADLINE_S = 30.0


class EvaluationServers(ServiceSet):
    """Env server and policy server of this machine. Leaving the ``with`` block stops what was started."""

    def __init__(self) -> None:
        """Starts nothing yet. Logs are kept only while it runs: the end of one is shown when its server fails."""
        self._logs = tempfile.TemporaryDirectory(prefix="gagpo-eval-")
        super().__init__(Path(self._logs.name))

    def stop(self) -> None:
        """Stop them."""
        super().stop()
        self._logs.cleanup()

    def start_env_server(self, names: Sequence[str], variables: dict[str, str], tick: Callable[[str], None]) -> str:
        """Its URL, once it is ready. Raises `ServiceDiedError`."""
        url = _local_url()
        self._processes.start(env_server_spec(url, names, variables))
        self._processes.wait_ready(tick)
        return url

    def start_policy_server(self, spec: EvaluationSpec, model: Path, tick: Callable[[str], None]) -> str:
        """The URL of one that serves ``model``, once it is ready. Raises `ServiceDiedError`."""
        url = _local_url()
        prompts = [environment.settings for environment in spec.environments]
        longest = max(one.prompt.max_tokens + one.sampling.max_tokens for one in prompts)
        self._processes.start(policy_server_spec(url, model, longest, None))
        self._processes.wait_ready(tick)
        return url


def check_weights(url: str, policy: ServedPolicy) -> None:
    """Raise `EvaluationError` unless the policy servers at ``url`` serve the weights that are to be evaluated."""
    for one in url.split(","):
        try:
            answer = httpx.get(
                f"{one}/v1/weights", headers=authorization(Scope.GENERATE), timeout=_LOOK_DEADLINE_S
            ).raise_for_status()
        except httpx.HTTPError as error:
            raise EvaluationError(f"--policy-url {one}: no policy server answers there ({error})") from error
        state = WeightState.model_validate_json(answer.content)
        if state.digest != policy.digest:
            raise EvaluationError(
                f"--policy-url {one} serves version {state.version}, which has other weights than {policy.model}: push "
                "those, or leave --policy-url out to have them served for the evaluation"
            )


def _local_url() -> str:
    return f"http://127.0.0.1:{free_port()}"
