"""One episode, turn by turn."""

from rich.console import Console

from gagpo.environment_client import EnvironmentClient, EnvironmentServerError
from gagpo.playing.screen import Screen, TextScreen
from gagpo.playing.shop_screen import ShopScreen
from shared.schemas.environment import EnvironmentDescription, Observation, SessionRequest

_SCREENS: dict[str, Screen] = {"webshop": ShopScreen()}
"""Environments that are more than plain text."""

_HELP = """{screen}
  ?      this help, and what can be done here
  hint   ask the expert what it would do
  quit   stop playing"""


def play_episode(
    client: EnvironmentClient, console: Console, environment: str, split: str | None, seed: int, task_id: str | None
) -> None:
    """Open a task and play it to its end, or until ``quit``. Raises `EnvironmentServerError`.

    Without a ``split`` the first one held out for validation is taken.
    """
    described = _describe(client, environment)
    asked = {"expert": True} if any(option.name == "expert" for option in described.options) else {}
    if task_id is not None:
        request = SessionRequest(environment=environment, task_id=task_id, options=asked)
    else:
        chosen = split or _usual_split(described)
        request = SessionRequest(environment=environment, split=chosen, seed=seed, options=asked)
    current = client.open(request)[0]
    console.print(f"[dim]{current.task_id} — ? for help[/dim]\n")
    _turns(client, console, _SCREENS.get(environment, TextScreen()), current)


def _describe(client: EnvironmentClient, environment: str) -> EnvironmentDescription:
    served = {entry.name: entry for entry in client.environments()}
    if environment not in served:
        raise EnvironmentServerError(f"environment = {environment!r}: the env server has {', '.join(sorted(served))}")
    return served[environment]


def _usual_split(described: EnvironmentDescription) -> str:
    return next((split for split in described.splits if "valid" in split), next(iter(described.splits)))


def _turns(client: EnvironmentClient, console: Console, screen: Screen, current: Observation) -> None:
    screen.show(console, current)
    while True:
        try:
            typed = console.input("\n[bold]>[/bold] ").strip()
        except (EOFError, KeyboardInterrupt):  # the ways in which a terminal says "enough"
            typed = "quit"
        if typed == "quit":
            client.close_session(current.session_id)
            return
        if typed == "hint":
            console.print(f"The expert would: {current.info.get('expert_action')}", markup=False)
            continue
        action = screen.action(typed, current) if typed not in ("", "?") else None
        if action is None:
            console.print(_HELP.format(screen=screen.help) + "\n", markup=False)
            screen.actions(console, current)
            continue
        result = client.step(current.session_id, action, current.step_index)
        if result.terminated or result.truncated:
            if not result.terminated or isinstance(screen, TextScreen):
                screen.show(console, result)
            screen.farewell(console, result)
            return
        screen.show(console, result)
        current = result
