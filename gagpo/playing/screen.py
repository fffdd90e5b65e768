"""What the terminal shows of an environment, and what a typed line means to it."""

from typing import Protocol

from rich.console import Console

from shared.schemas.environment import Observation, StepResult


class Screen(Protocol):
    """One environment's way to be played in a terminal."""

    @property
    def help(self) -> str:
        """What may be typed, besides ``?``, ``hint`` and ``quit``."""

    def show(self, console: Console, seen: Observation) -> None:
        """Print what is seen now."""

    def actions(self, console: Console, seen: Observation) -> None:
        """Print what can be done."""

    def action(self, typed: str, seen: Observation) -> str | None:
        """The action that a typed line means; None where it means none here."""

    def farewell(self, console: Console, result: StepResult) -> None:
        """Print how the episode ended."""


class TextScreen:
    """Observations as they are, actions typed in full: right for any environment of plain text."""

    help = "Type an action as it stands in the list."

    def show(self, console: Console, seen: Observation) -> None:
        """The observation's text."""
        console.print(seen.observation, markup=False)

    def actions(self, console: Console, seen: Observation) -> None:
        """The admissible actions, one a line."""
        console.print("\n".join(seen.admissible_actions), markup=False)

    def action(self, typed: str, seen: Observation) -> str | None:
        """What was typed."""
        return typed

    def farewell(self, console: Console, result: StepResult) -> None:
        """Whether it was solved, and how quickly."""
        console.print(f"\n{verdict(result)} in {result.step_index} steps{experts_steps(result)}.")


def verdict(result: StepResult) -> str:
    """Whether the task was solved, with rich's markup."""
    return "[green]Solved[/green]" if result.info.get("won") else "[red]Not solved[/red]"


def experts_steps(result: StepResult) -> str:
    """How many steps the expert needs, where the environment says so."""
    optimal = result.info.get("optimal_steps")
    return "" if optimal is None else f"; the expert needs {optimal}"
