"""One evaluation from start to end: servers, episodes, reports."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.status import Status

from gagpo.environment_client import EnvironmentClient
from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.folder import EvaluationFolder, read_report
from gagpo.evaluating.policy import FoundPolicy
from gagpo.evaluating.report_text import report_markdown
from gagpo.evaluating.request import EvaluationRequest, make_spec, wanted_names
from gagpo.evaluating.servers import EvaluationServers, check_weights
from gagpo.stack.servers import module_argv
from gagpo.training.tasks import data_folders
from shared.exit_status import how_it_ended
from shared.files import write_atomically
from shared.recipe import Recipe
from shared.schemas.evaluation import EvaluationReport, EvaluationSpec, ServedPolicy

EVALUATIONS = Path("evaluations")


def evaluate_policy(
    request: EvaluationRequest, policy: FoundPolicy, recipe: Recipe | None, console: Console
) -> tuple[EvaluationReport, EvaluationFolder]:
    """Evaluate, from wherever an earlier start with the same arguments was interrupted.

    Whatever has no URL is started here and stopped at the end. Raises `EvaluationError`, `ServiceDiedError`,
    `EnvironmentServerError` and `TaskDataError`.
    """
    names = wanted_names(request, recipe)
    with EvaluationServers() as servers:
        env_url = request.env_url
        if env_url is None:
            with console.status("starting the env server …") as status:
                variables = {} if recipe is None else data_folders(recipe)
                env_url = servers.start_env_server(names, variables, _waiting(status))
        with EnvironmentClient(env_url.split(",")[0]) as client:
            spec = make_spec(request, policy, recipe, client.environments())
        folder = EvaluationFolder((request.out or EVALUATIONS / _name(policy, spec)).resolve())
        with folder.claim(spec):
            report = folder.complete()
            if report is not None:
                console.print(f"{folder.path} is complete already", markup=False)
                return report, folder
            console.print(f"evaluation {folder.path}", markup=False)
            policy_url = _policy_url(request, spec, servers, console)
            _play(servers, folder, env_url, policy_url)
            report = read_report(folder.report)
            write_atomically(folder.markdown, report_markdown(report).encode())
    return report, folder


def _name(policy: FoundPolicy, spec: EvaluationSpec) -> str:
    parts = [f"{one.settings.name}-{one.settings.eval_split}" for one in spec.environments]
    return "-".join([policy.name, *parts, f"s{spec.seed}"])


def _policy_url(
    request: EvaluationRequest, spec: EvaluationSpec, servers: EvaluationServers, console: Console
) -> str | None:
    """Where the policy is served; None where it is none that a policy server serves."""
    if not isinstance(spec.policy, ServedPolicy):
        return None
    if request.policy_url is not None:
        check_weights(request.policy_url, spec.policy)
        return request.policy_url
    with console.status("starting vLLM (about a minute) …") as status:
        return servers.start_policy_server(spec, spec.policy.model, _waiting(status))


def _waiting(status: Status) -> Callable[[str], None]:
    return lambda name: status.update(f"waiting for the {name} …")


def _play(servers: EvaluationServers, folder: EvaluationFolder, env_url: str, policy_url: str | None) -> None:
    """Have the orchestrator's own program play, which shows its progress.

    Raises `EvaluationError` when it fails, `ServiceDiedError` when one of the servers does.
    """
    argv = [
        *module_argv("services.orchestrator.evaluate"),
        *("--spec", str(folder.spec), "--env-url", env_url),
        *([] if policy_url is None else ["--policy-url", policy_url]),
        *("--out", str(folder.report), "--transcripts", str(folder.transcripts)),
    ]
    code = servers.run(argv, output=subprocess.DEVNULL)  # its last line is told here as a table
    if code != 0:
        raise EvaluationError(f"the evaluation {how_it_ended(code)}; its message is above")
