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


@dataclass(eq=False, slots=True)
class Operator:
    """An action with all its parameters chosen."""

    schema: Schema
    arguments: tuple[int, ...]
    command: str
    add: int
    delete: int
    conditional: tuple[tuple[int, int, int, int], ...]
    """(bits needed, bits forbidden, bits to add, bits to delete)."""
    answer: Tale


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
    placeless: bool
    """Where the agent is makes no difference to what the action does and says, so that all places share operators."""
    shared: "list[Candidate] | None" = None


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
                    changing = [x for x in conjunction.literals if x.predicate in table.changing]
                    anchor = next((x for x in changing if x.predicate == ANCHOR and x.positive), None)
                    placeless = anchor is not None and self._is_placeless(schema, conjunction, anchor)
                    self._alternatives.append(Alternative(schema, conjunction, changing, anchor, placeless))
        self._anchors = table.mask_of(ANCHOR)
        if (table.initial_state & self._anchors).bit_count() != 1:
            raise PddlError(f"the PDDL problem must state exactly one {ANCHOR} fact at first")

    def _is_placeless(self, schema: Schema, conjunction: Conjunction, anchor: Literal) -> bool:
        """True for moving about: the place it starts from matters to nothing but its own ``not at``."""
        start = anchor.terms[-1]
        position = next((i for i, (name, _) in enumerate(schema.parameters) if name == start), None)
        used = [x for x in conjunction.literals if x is not anchor] + [e.literal for e in schema.effects]
        used += [condition for effect in schema.effects for condition in effect.conditions]
        left = Literal(anchor.predicate, anchor.terms, positive=False)
        return (
            position is not None
            and all(start not in x.terms or x == left for x in used)
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
            others = [x for x in option.changing if x is not option.anchor]
            reaches = [self._table.reach(x, possible) for x in others]
            for reach in reaches:
                place.view_mask |= reach
            positive = [(reach, x) for reach, x in zip(reaches, others, strict=True) if x.positive]
            if positive:
                reach, literal = max(positive, key=lambda pair: pair[0].bit_count())
                place.triggers.append((reach, option, literal, binding))
                place.trigger_mask |= reach
                continue
            for need, forbid, operator in self._ground_here(option, binding, anchor):
                if need & ~anchor or forbid:
                    place.tested.append((need, forbid, operator))
                else:
                    place.fixed.setdefault(operator.command, operator)
        return place

    def _ground_here(self, option: Alternative, binding: Binding, anchor: int) -> list[Candidate]:
        """The operators of an action that asks for no changing fact but where the agent is."""
        if not option.placeless:
            return [x for x in self._ground(option, binding) if self._changes(x, anchor)]
        if option.shared is None:
            option.shared = [(need & ~self._anchors, forbid, x) for need, forbid, x in self._ground(option, binding)]
        return [
            (need, forbid, x) for need, forbid, x in option.shared if self._changes((need | anchor, forbid, x), anchor)
        ]

    def _changes(self, candidate: Candidate, anchor: int) -> bool:
        """As in stock's planner, an action that can change nothing (going to where one is) does not exist."""
        need, forbid, operator = candidate
        delete = operator.delete & ~self._anchors | operator.delete & anchor
        return bool(operator.conditional or operator.add & ~need or delete & ~forbid)

    def _ground_for(self, place: Place, trigger: int) -> list[Candidate]:
        predicate, fact = self._table.decode(trigger)
        found: list[Candidate] = []
        for reach, option, literal, binding in place.triggers:
            if reach & trigger and literal.predicate == predicate:
                bound = self._unify(option.conjunction, literal, fact, binding)
                if bound is not None:
                    found.extend(x for x in self._ground(option, bound) if self._changes(x, self._anchors))
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
                found.append((need, forbid, self._operator(option.schema, solution)))
        return found

    def _operator(self, schema: Schema, binding: Binding) -> Operator:
        arguments = tuple(binding[name] for name, _ in schema.parameters)
        known = self._operators.get((schema.name, arguments))
        if known is None:
            add, delete, conditional = 0, 0, []
            for effect in schema.effects:
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
            command, answer = self._voices[schema.name]
            # A command's wording may look at constant facts only, so any state will do.
            text = command.about(arguments).tell(self._table.initial_state, 0)
            answered = answer.about(arguments)
            known = Operator(schema, arguments, text, add, delete & ~add, tuple(conditional), answered)
            self._operators[schema.name, arguments] = known
        return known

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
