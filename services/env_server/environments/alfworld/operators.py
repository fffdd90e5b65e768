"""Which commands are possible where: grounding a game's actions lazily, place by place and fact by fact.

Most actions need the agent to be at one place, so a state is looked at through the `Place` it is in. There, an action
that needs one more changing fact (something lies here, something is held) is grounded when that fact first shows up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from services.env_server.environments.alfworld.facts import Binding, FactTable
from services.env_server.environments.alfworld.narrator import Tale, Voice
from services.env_server.environments.alfworld.pddl import Conjunction, Domain, Literal, PddlError, Schema

ANCHOR = "atlocation"
"""The predicate that says where the agent is: exactly one such fact is true at any time."""

_VIEWS_KEPT = 4096
"""Views remembered per place before they are forgotten all at once."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What an operator does to a state."""

    add: int
    delete: int
    conditional: tuple[tuple[int, int, int, int], ...]
    """(bits needed, bits forbidden, bits to add, bits to delete)."""


@dataclass(eq=False, slots=True)
class Operator:
    """An action with all its parameters chosen. What it does and says is worked out when it is first chosen."""

    schema: Schema
    arguments: tuple[int, ...]
    command: str
    effects: Effects | None = None
    answer: Tale | None = None


Candidate: TypeAlias = tuple[int, int, Operator]
"""(bits needed, bits forbidden, operator): possible when all of the first and none of the second are set."""


@dataclass(frozen=True, slots=True)
class View:
    """The commands possible in a state: by their text, and in the order that the game lists them."""

    operators: Mapping[str, Operator]
    commands: tuple[str, ...]


@dataclass(eq=False, slots=True)
class Alternative:
    """One conjunction that makes an action possible."""

    schema: Schema
    conjunction: Conjunction
    changing: Sequence[Literal]
    """Its literals over changing facts."""
    anchor: Literal | None
    """The one that says where the agent must be."""
    others: Sequence[Literal]
    """The other literals over changing facts."""
    may_be_idle: bool
    """Whether all that the action does could be true already where it is possible."""
    moves_only: bool
    """All it does is to change the place, whatever the place it starts from: all places share its operators."""
    shared: "dict[str, Operator] | None" = None
    idle_at: dict[int, list[str]] = field(default_factory=dict)
    """Anchor → commands of `shared` that lead to where one is."""


@dataclass(eq=False, slots=True)
class Place:
    """What can be done where the agent is."""

    fixed: dict[str, Operator]
    """Possible whenever the agent is here."""
    tested: list[Candidate]
    triggers: list[tuple[int, Alternative, Literal, Binding]]
    """Facts (as a mask) that may allow more, and what to ground when one of them is true."""
    trigger_mask: int
    view_mask: int
    """The bits that decide what is possible here."""
    triggered: dict[int, list[Candidate]] = field(default_factory=dict)
    views: dict[int, View] = field(default_factory=dict)


class OperatorTable:
    """The operators of one game, grounded as they are needed."""

    def __init__(self, domain: Domain, table: FactTable, voices: Mapping[str, tuple[Voice, Voice]]) -> None:
        """``voices`` gives (command, answer) for each action that has words; no other can be typed."""
        self._table = table
        self._voices = voices
        self._operators: dict[tuple[str, tuple[int, ...]], Operator] = {}
        self._places: dict[int, Place] = {}
        self._alternatives = []
        for schema in domain.schemas:
            for conjunction in schema.preconditions if schema.name in voices else ():
                if all(table.candidates(conjunction).values()):
                    self._alternatives.append(self._alternative(schema, conjunction))
        self._anchors = table.mask_of(ANCHOR)
        if (table.initial_state & self._anchors).bit_count() != 1:
            raise PddlError(f"the PDDL problem must state exactly one {ANCHOR} fact at first")

    def effects(self, operator: Operator) -> Effects:
        """What an operator does."""
        if operator.effects is None:
            operator.effects = self._effects(operator)
        return operator.effects

    def answer(self, operator: Operator) -> Tale:
        """What the game says to an operator."""
        if operator.answer is None:
            operator.answer = self._voices[operator.schema.name][1].about(operator.arguments)
        return operator.answer

    def _alternative(self, schema: Schema, conjunction: Conjunction) -> Alternative:
        changing = [x for x in conjunction.literals if x.predicate in self._table.changing]
        anchor = next((x for x in changing if x.predicate == ANCHOR and x.positive), None)
        asked = {x.predicate for x in changing if x.positive}
        may_be_idle = all(
            not effect.conditions and (not effect.literal.positive or effect.literal.predicate in asked)
            for effect in schema.effects
        )
        others = [x for x in changing if x is not anchor]
        moves_only = anchor is not None and not others and self._moves_only(schema, conjunction, anchor)
        return Alternative(schema, conjunction, changing, anchor, others, may_be_idle, moves_only)

    def _moves_only(self, schema: Schema, conjunction: Conjunction, anchor: Literal) -> bool:
        """True where the place that an action starts from matters to nothing but its own ``not at``."""
        start = anchor.terms[-1]
        position = next((i for i, (name, _) in enumerate(schema.parameters) if name == start), None)
        left = Literal(anchor.predicate, anchor.terms, positive=False)
        done = [effect.literal for effect in schema.effects]
        return (
            position is not None
            and all(start not in x.terms for x in conjunction.literals if x is not anchor)
            and all(x == left or (x.positive and x.predicate == ANCHOR and start not in x.terms) for x in done)
            and not any(effect.conditions for effect in schema.effects)
            and not any(voice.depends_on(position) for voice in self._voices[schema.name])
        )

    def view(self, state: int) -> View:
        """What can be done in a state."""
        anchor = state & self._anchors
        place = self._places.get(anchor)
        if place is None:
            place = self._places[anchor] = self._survey(anchor)
        seen = state & place.view_mask
        view = place.views.get(seen)
        if view is None:
            if len(place.views) >= _VIEWS_KEPT:
                place.views.clear()
            view = place.views[seen] = self._look(place, state)
        return view

    def _look(self, place: Place, state: int) -> View:
        operators = dict(place.fixed)
        for need, forbid, operator in place.tested:
            if state & need == need and not state & forbid:
                operators.setdefault(operator.command, operator)
        active = state & place.trigger_mask
        while active:
            fact = active & -active
            active ^= fact
            candidates = place.triggered.get(fact)
            if candidates is None:
                candidates = place.triggered[fact] = self._ground_for(place, fact)
            for need, forbid, operator in candidates:
                if state & need == need and not state & forbid:
                    operators.setdefault(operator.command, operator)
        return View(operators, tuple(sorted(operators)))

    def _survey(self, anchor: int) -> Place:
        """Find out what can be done at a place, up to what depends on further facts."""
        place = Place({}, [], [], 0, anchor)
        _, here = self._table.decode(anchor)
        for option in self._alternatives:
            binding = {} if option.anchor is None else self._unify(option.conjunction, option.anchor, here, {})
            if binding is None:
                continue
            possible = self._table.narrow(option.conjunction, binding)
            if possible is None:
                continue
            if option.moves_only:
                place.fixed = {**self._ways_from(option, binding, anchor), **place.fixed}
                continue
            reaches = [self._table.reach(x, possible) for x in option.others]
            for reach in reaches:
                place.view_mask |= reach
            positive = [(reach, x) for reach, x in zip(reaches, option.others, strict=True) if x.positive]
            if positive:
                reach, literal = max(positive, key=lambda pair: pair[0].bit_count()) if positive[1:] else positive[0]
                place.triggers.append((reach, option, literal, binding))
                place.trigger_mask |= reach
                continue
            for need, forbid, operator in self._ground(option, binding):
                if need & ~anchor or forbid:
                    place.tested.append((need, forbid, operator))
                else:
                    place.fixed.setdefault(operator.command, operator)
        return place

    def _ways_from(self, option: Alternative, binding: Binding, anchor: int) -> dict[str, Operator]:
        """Where one can go to; not to where one is."""
        if option.shared is None:
            option.shared = {}
            for solution in self._table.solve(option.conjunction, binding):
                operator = self._operator(option.schema, solution)
                option.shared.setdefault(operator.command, operator)
                option.idle_at.setdefault(self.effects(operator).add, []).append(operator.command)
        ways = dict(option.shared)
        for command in option.idle_at.get(anchor, ()):
            del ways[command]
        return ways

    def _changes(self, need: int, forbid: int, effects: Effects) -> bool:
        """As in stock's planner, an action that can change nothing (going to where one is) does not exist."""
        here = need & self._anchors
        delete = effects.delete & ~self._anchors | effects.delete & here
        return bool(effects.conditional or effects.add & ~need or delete & ~forbid)

    def _ground_for(self, place: Place, trigger: int) -> list[Candidate]:
        predicate, fact = self._table.decode(trigger)
        found: list[Candidate] = []
        for reach, option, literal, binding in place.triggers:
            if reach & trigger and literal.predicate == predicate:
                bound = self._unify(option.conjunction, literal, fact, binding)
                if bound is not None:
                    found.extend(self._ground(option, bound))
        return found

    def _unify(
        self, conjunction: Conjunction, literal: Literal, fact: Sequence[int], binding: Binding
    ) -> Binding | None:
        """The binding under which the literal is this fact; None when it cannot be."""
        bound = dict(binding)
        possible = self._table.candidates(conjunction)
        for term, value in zip(literal.terms, fact, strict=True):
            if term.startswith("?"):
                if bound.setdefault(term, value) != value or value not in possible[term]:
                    return None
            elif self._table.index.get(term) != value:
                return None
        return bound

    def _ground(self, option: Alternative, binding: Binding) -> list[Candidate]:
        found: list[Candidate] = []
        for solution in self._table.solve(option.conjunction, binding):
            need = forbid = 0
            for literal in option.changing:
                bit = self._table.bit(literal.predicate, self._table.fact_of(literal, solution))
                if literal.positive:
                    if not bit:
                        break
                    need |= bit
                else:
                    forbid |= bit
            else:
                operator = self._operator(option.schema, solution)
                if not option.may_be_idle or self._changes(need, forbid, self.effects(operator)):
                    found.append((need, forbid, operator))
        return found

    def _operator(self, schema: Schema, binding: Binding) -> Operator:
        arguments = tuple([binding[name] for name, _ in schema.parameters])
        known = self._operators.get((schema.name, arguments))
        if known is None:
            # A command's wording may look at constant facts only, so any state will do.
            command = self._voices[schema.name][0].text(arguments, self._table.initial_state)
            known = self._operators[schema.name, arguments] = Operator(schema, arguments, command)
        return known

    def _effects(self, operator: Operator) -> Effects:
        names = [name for name, _ in operator.schema.parameters]
        binding = dict(zip(names, operator.arguments, strict=True))
        add, delete, conditional = 0, 0, []
        for effect in operator.schema.effects:
            literal = effect.literal
            bit = self._table.bit(literal.predicate, self._table.fact_of(literal, binding))
            gain, loss = (bit, 0) if literal.positive else (0, bit)
            if effect.conditions:
                need, forbid = self._condition_bits(effect.conditions, binding)
                conditional.append((need, forbid, gain, loss))
            else:
                add |= gain
                delete |= loss
        if delete & self._anchors:
            # The agent is at one place only, so leaving it is the same as being at none.
            delete |= self._anchors
        return Effects(add, delete & ~add, tuple(conditional))

    def _condition_bits(self, conditions: Sequence[Literal], binding: Binding) -> tuple[int, int]:
        need = forbid = 0
        for literal in conditions:
            if literal.predicate not in self._table.changing:
                raise PddlError(f"a conditional effect depends on {literal.predicate}, which no action changes")
            bit = self._table.bit(literal.predicate, self._table.fact_of(literal, binding))
            if literal.positive:
                # A bit beyond every state stands for a fact that can never be true.
                need |= bit or 1 << self._table.width
            else:
                forbid |= bit
        return need, forbid
