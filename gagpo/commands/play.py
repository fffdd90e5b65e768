"""``gagpo play``: a person plays an environment in the terminal, over the same REST API as a policy."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gagpo.commands.errors import plain_errors
from gagpo.environment_client import EnvironmentClient
from gagpo.ports import free_port
from gagpo.stack import ProcessGroup, ServiceSpec
from shared.schemas.environment import Observation, SessionRequest, StepResult

_HELP = """Type an action as it stands in the list, or one of:
  ?      list the admissible actions
  hint   ask the expert what it would do
  quit   stop playing"""

console = Console(highlight=False, soft_wrap=True)


def play(
    environment: Annotated[str, typer.Argument(help="The environment: alfworld.")],
    split: Annotated[str, typer.Option(help="Which tasks.")] = "valid_seen",
    seed: Annotated[int, typer.Option(help="Draws the task.")] = 0,
    task_id: Annotated[str | None, typer.Option(help="Play this very task instead.")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of a running env server. One is started for you otherwise.")
    ] = None,
) -> None:
    """Play an environment in the terminal, with hints from its expert.

    Example: gagpo play alfworld --split valid_unseen --seed 7
    """
    with plain_errors("Stopped."):
        if server is not None:
            _play(server, environment, split, seed, task_id)
        else:
            _play_alone(environment, split, seed, task_id)


def _play_alone(environment: str, split: str, seed: int, task_id: str | None) -> None:
    """With an env server of one's own, for as long as the game lasts."""
    url = f"http://127.0.0.1:{free_port()}"
    argv = [sys.executable, "-m", "services.env_server", "--port", url.rsplit(":", 1)[1]]
    with tempfile.TemporaryDirectory(prefix="gagpo-play-") as logs, ProcessGroup(Path(logs)) as processes:
        with console.status("starting an env server (the first time, its games are generated) …"):
            processes.start(ServiceSpec("env-server", argv, ready_url=f"{url}/readyz", ready_deadline_s=180.0))
            processes.wait_ready()
        _play(url, environment, split, seed, task_id)


def _play(url: str, environment: str, split: str, seed: int, task_id: str | None) -> None:
    with EnvironmentClient(url) as client:
        current = client.open(_request(environment, split, seed, task_id))[0]
        console.print(f"[dim]{current.task_id} — ? for help[/dim]\n")
        _turns(client, current)


def _request(environment: str, split: str, seed: int, task_id: str | None) -> SessionRequest:
    if task_id is not None:
        return SessionRequest(environment=environment, task_id=task_id, options={"expert": True})
    return SessionRequest(environment=environment, split=split, seed=seed, options={"expert": True})


def _turns(client: EnvironmentClient, current: Observation) -> None:
    console.print(current.observation, markup=False)
    while True:
        try:
            action = console.input("\n[bold]>[/bold] ").strip()
        except (EOFError, KeyboardInterrupt):  # the ways in which a terminal says "enough"
            action = "quit"
        if action == "quit":
            client.close_session(current.session_id)
            return
        if action in ("", "?", "help me"):
            console.print(_HELP + "\n", markup=False)
            console.print("\n".join(current.admissible_actions), markup=False)
        elif action == "hint":
            console.print(f"The expert would: {current.info.get('expert_action')}", markup=False)
        else:
            result = client.step(current.session_id, action, current.step_index)
            console.print(result.observation, markup=False)
            if result.terminated or result.truncated:
                _farewell(result)
                return
            current = result


def _farewell(result: StepResult) -> None:
    verdict = "[green]Solved[/green]" if result.info.get("won") else "[red]Not solved[/red]"
    console.print(f"\n{verdict} in {result.step_index} steps; the expert needs {result.info.get('optimal_steps')}.")
