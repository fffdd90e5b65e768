"""``gagpo play``: a person plays an environment in the terminal, over the same REST API as a policy."""

import contextlib
from typing import Annotated

import typer
from rich.console import Console

from gagpo.commands.errors import plain_errors
from gagpo.environment_client import EnvironmentClient
from gagpo.playing import check_known, play_episode
from gagpo.stack import local_env_server

console = Console(highlight=False, soft_wrap=True)


def play(
    environment: Annotated[str, typer.Argument(help="The environment: alfworld or webshop.")],
    split: Annotated[
        str | None, typer.Option(help="Which tasks; by default the first split held out for validation.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the task.")] = 0,
    task_id: Annotated[str | None, typer.Option(help="Play this very task instead.")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of a running env server. One is started for you otherwise.")
    ] = None,
) -> None:
    """Play an environment in the terminal, with hints from its expert.

    Examples: gagpo play alfworld --split valid_unseen --seed 7; gagpo play webshop --task-id human-3
    """
    with plain_errors("Stopped."):
        if server is not None:
            with EnvironmentClient(server) as client:
                play_episode(client, console, environment, split, seed, task_id)
        else:
            check_known(environment)
            _play_alone(environment, split, seed, task_id)


def _play_alone(environment: str, split: str | None, seed: int, task_id: str | None) -> None:
    """With an env server of one's own, for as long as the game lasts."""
    with contextlib.ExitStack() as server:
        with console.status("starting an env server (the first time, its tasks are generated) …"):
            url = server.enter_context(local_env_server(environment))
        with EnvironmentClient(url) as client:
            play_episode(client, console, environment, split, seed, task_id)
