"""One compiled game: parsed once, shared by every episode of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from services.env_server.environments.alfworld.facts import FactTable
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.grammar import GrammarError, Reference, Thing, parse_grammar
from services.env_server.environments.alfworld.narrator import Narrator, Situation, Voice
from services.env_server.environments.alfworld.operators import Operator, OperatorTable, View
from services.env_server.environments.alfworld.pddl import (
    Conjunction,
    Domain,
    PddlError,
    Problem,
    parse_domain,
    parse_problem,
)
from services.env_server.environments.base import EnvironmentDataError

_GOAL_MARK = "UNKNOWN GOAL"
"""What the grammar of the alfworld package has in the place of the goal."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a game stands: two integers, so that copying one costs nothing."""

    facts: int
    """The true facts, as bits."""
    removed: int
    """Facts that an action took away and none has brought back. No part of the true state, but texts ask for them."""


class Game:
    """Immutable but for its caches; not for use by several threads at once."""

    def __init__(self, source: GameSource, goal_shown: str) -> None:
        """Use `compile_game`."""
        domain, problem = parse_domain(source.domain), parse_problem(source.problem)
        self.source = source
        self.goal = goal_shown
        self.domain = domain
        self.table = FactTable(domain, problem)
        names = _number(self.table.ids)
        self.things: Sequence[Thing] = tuple(
            Thing(id_, kind, name) for id_, kind, name in zip(self.table.ids, self.table.kinds, names, strict=True)
        )
        shared = source.grammar.replace(source.goal, _GOAL_MARK) if source.goal else source.grammar
        if shared.count(_GOAL_MARK) != 1:
            shared = source.grammar
        self._grammar = parse_grammar(shared)
        replaced = _GOAL_MARK if shared is not source.grammar or _GOAL_MARK in shared else source.goal
        self._narrator = Narrator(self._grammar, self.table, self.things, (replaced or _GOAL_MARK, goal_shown))
        self.removable = 0
        for predicate in self._narrator.asked(negated=True):
            self.removable |= self.table.mask_of(predicate)
        self.initial = State(self.table.initial_state, 0)
        voices: dict[str, tuple[Voice, Voice]] = {}
        for schema in domain.schemas:
            if words := self._grammar.actions.get(schema.name):
                parameters = [(name.strip("?"), kind) for name, kind in schema.parameters]
                command, answer = (Voice(self._narrator, x, parameters) for x in (words.template, words.feedback))
                voices[schema.name] = (command, answer)
        self._operators = OperatorTable(domain, self.table, voices)
        self.goal_parts = self._ground_goal(problem.goal)
        self._goal_mask = 0
        for part in self.goal_parts:
            for need, forbid in part:
                self._goal_mask |= need | forbid
        self._won: dict[int, bool] = {}
        self._held_mask = self.table.mask_of("holds")
        self._relevant_mask = 0
        for predicate in _relevant(domain, problem, self._narrator.asked()):
            self._relevant_mask |= self.table.mask_of(predicate)

    def view(self, state: State) -> View:
        """The commands possible in a state."""
        return self._operators.view(state.facts)

    def won(self, state: State) -> bool:
        """Whether the goal is reached."""
        seen = state.facts & self._goal_mask
        won = self._won.get(seen)
        if won is None:
            won = self._won[seen] = all(
                any(seen & need == need and not seen & forbid for need, forbid in part) for part in self.goal_parts
            )
        return won

    @cached_property
    def intro(self) -> str:
        """The text that an episode starts with, banner and all."""
        return self._narrator.tell((Reference("intro"),), {}, Situation(self.initial.facts, 0))

    def apply(self, state: State, operator: Operator) -> State:
        """The state after an action that is possible in ``state``."""
        effects = operator.effects or self._operators.effects(operator)
        add, delete = effects.add, effects.delete
        for need, forbid, gain, loss in effects.conditional:
            if state.facts & need == need and not state.facts & forbid:
                add |= gain
                delete |= loss
        delete &= ~add
        removed = state.removed
        if (add | delete) & self.removable:
            removed = (removed & ~add) | (delete & self.removable)
        return State((state.facts & ~delete) | add, removed)

    def answer(self, operator: Operator, after: State) -> str:
        """What the game says to an action, given the state that it led to."""
        tale = operator.answer or self._operators.answer(operator)
        return tale.tell(after.facts, after.removed)

    def held(self, state: State) -> list[str]:
        """Names of what the agent holds, sorted."""
        held = state.facts & self._held_mask
        return sorted(self.things[fact[-1]].name for _, fact in self.table.true_facts(held)) if held else []

    def true_state(self, state: State) -> bytes:
        """The facts that some precondition, the goal or some text can depend on, as little-endian bits.

        Left out is what the domain only ever writes (ALFRED notes what was looked at), so that looking changes nothing.
        """
        return (state.facts & self._relevant_mask).to_bytes(self.table.width // 8 + 1, "little")

    def _ground_goal(self, goal: Sequence[Sequence[Conjunction]]) -> list[list[tuple[int, int]]]:
        parts = []
        for alternatives in goal:
            part = []
            for conjunction in alternatives:
                changing = [x for x in conjunction.literals if x.predicate in self.table.changing]
                for solution in self.table.solve(conjunction, {}):
                    bits = [(x, self.table.bit(x.predicate, self.table.fact_of(x, solution))) for x in changing]
                    if all(bit for literal, bit in bits if literal.positive):
                        need = forbid = 0
                        for literal, bit in bits:
                            if literal.positive:
                                need |= bit
                            else:
                                forbid |= bit
                        part.append((need, forbid))
            parts.append(list(dict.fromkeys(part)))
        return parts


def compile_game(source: GameSource, goal: str | None = None) -> Game:
    """Parse a game and get it ready to play, showing ``goal`` (None: the game's own) as the task.

    Raises `EnvironmentDataError` (as `PddlError` or `GrammarError`) naming what is wrong with the game's texts.
    """
    try:
        game = Game(source, source.goal if goal is None else goal)
        shown = game.intro
    except EnvironmentDataError as error:
        raise type(error)(f"{source.task_id}: {error}") from error
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise PddlError(f"{source.task_id}: the game's texts are damaged ({type(error).__name__}: {error})") from error
    if goal is not None and goal not in shown:
        raise GrammarError(f"{source.task_id}: the grammar does not hold the goal {source.goal!r}")
    return game


def _relevant(domain: Domain, problem: Problem, asked: Iterable[str]) -> set[str]:
    """The predicates whose facts can ever make a difference."""
    found = set(asked)
    conjunctions = [c for schema in domain.schemas for c in schema.preconditions]
    conjunctions += [c for alternatives in problem.goal for c in alternatives]
    found.update(literal.predicate for c in conjunctions for literal in c.literals)
    grown = True
    while grown:
        effects = (e for schema in domain.schemas for e in schema.effects if e.literal.predicate in found)
        more = {condition.predicate for effect in effects for condition in effect.conditions} - found
        found |= more
        grown = bool(more)
    return found


def _number(ids: Sequence[str]) -> list[str]:
    """Names for people: ``mug_bar__plus_…`` → ``mug 2``. Within a kind, the first id gets the highest number."""
    kinds = [kind_of(id_) for id_ in ids]
    left = Counter(kind for kind in kinds if kind is not None)
    names = []
    for id_, kind in zip(ids, kinds, strict=True):
        if kind is None:
            # Stock leaves a space where the number would be.
            names.append(f"{id_} ")
        else:
            names.append(f"{kind} {left[kind]}")
            left[kind] -= 1
    return names


def kind_of(id_: str) -> str | None:
    """The kind that a thing's id begins with, as it is named in texts; None for an id of another form."""
    kind, bar, _ = id_.partition("_bar_")
    if not bar:
        return None
    return f"{kind}basin" if "basin" in id_ else kind
