"""Everything that the engine needs to play one game, wherever it came from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GameSource:
    """One game as text. Immutable, and cheap to hand between processes."""

    task_id: str
    """``<task>/<trial>``, the folder names of the official release."""
    task_type: str
    """One of the six kinds of task, such as ``pick_and_place_simple``."""
    domain: str
    """The PDDL domain."""
    grammar: str
    """The twl2 text grammar, with the goal already in it."""
    problem: str
    """The PDDL problem: objects, initial facts and goal."""
    goal: str
    """The goal sentence that the grammar shows."""
    human_goals: tuple[str, ...]
    """What people wrote for the same task; may be empty."""
    walkthrough: tuple[str, ...]
    """A winning list of commands; empty where the game comes without one."""
