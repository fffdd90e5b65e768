"""The facts of one game: what never changes, as indexed tuples; what actions change, as the bits of one integer.

A state is then a single Python integer: cheap to copy, compare, hash and test against a precondition.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from services.env_server.environments.alfworld.pddl import Conjunction, Domain, Literal, PddlError, Problem

Fact: TypeAlias = tuple[int, ...]
"""Arguments of a predicate, as indices of things in the order of their ids."""

Binding: TypeAlias = dict[str, int]
"""Values of variables."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a predicate's facts lie: ``p(x, y)`` is bit ``base + ranks[0][x] + ranks[1][y]``."""

    base: int
    size: int
    ranks: tuple[Mapping[int, int], ...]
    values: tuple[Sequence[int], ...]


@dataclass(frozen=True, slots=True)
class _Join:
    """How to find the solutions of a conjunction: match the steps in order, try the free variables, check the rest."""

    conjunction: Conjunction
    steps: tuple[Literal, ...]
    free: tuple[tuple[str, Sequence[int]], ...]
    checks: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class _Narrowing:
    """What is known about a conjunction's variables when some are bound, before it is known to what."""

    conjunction: Conjunction
    possible: Mapping[str, frozenset[int]]
    dependent: tuple[tuple[Literal, str, int], ...]
    """Literals that say more about a variable, and in which argument place, once their other terms have values."""


class FactTable:
    """Things, types, constant facts, and the numbering of changing facts, of one game."""

    def __init__(self, domain: Domain, problem: Problem) -> None:
        """Raises `PddlError` when a fact names an object that the problem does not declare."""
        mentioned = {argument for fact in problem.init for argument in fact[1:]}
        if unknown := sorted(mentioned - problem.objects.keys()):
            raise PddlError(f"the PDDL problem states facts about {unknown[0]!r}, which is not among its :objects")
        self.ids: tuple[str, ...] = tuple(sorted(mentioned))
        self.index: Mapping[str, int] = {name: i for i, name in enumerate(self.ids)}
        self.kinds: tuple[str, ...] = tuple(problem.objects[name] for name in self.ids)
        self._parents = domain.parents
        self._members: dict[str, frozenset[int]] = {}
        self._candidates: dict[int, tuple[Conjunction, dict[str, frozenset[int]]]] = {}
        self.changing: frozenset[str] = frozenset(e.literal.predicate for s in domain.schemas for e in s.effects)
        initial: dict[str, list[Fact]] = defaultdict(list)
        for predicate, *arguments in problem.init:
            initial[predicate].append(tuple(self.index[name] for name in arguments))
        self.constant: Mapping[str, frozenset[Fact]] = {
            name: frozenset(facts) for name, facts in initial.items() if name not in self.changing
        }
        self._by_argument: dict[tuple[str, int, int], list[Fact]] = defaultdict(list)
        for name, facts in self.constant.items():
            for fact in sorted(facts):
                for position, value in enumerate(fact):
                    self._by_argument[name, position, value].append(fact)
        self._columns = self._reachable_columns(domain, initial)
        self._layouts = self._lay_out()
        self._decoded: dict[int, tuple[str, Fact]] = {}
        self._pattern_masks: dict[tuple[str, tuple[int | None, ...]], int] = {}
        self._masks: dict[tuple[str, tuple[frozenset[int] | None, ...]], int] = {}
        self._fitting: dict[tuple[str, tuple[int | None, ...]], Sequence[Fact]] = {}
        self._narrowings: dict[tuple[int, tuple[str, ...]], _Narrowing] = {}
        self._projections: dict[tuple[str, tuple[int | None, ...], int], frozenset[int]] = {}
        self._joins: dict[tuple[int, tuple[str, ...]], _Join] = {}
        self.initial_state = self.bits((name, fact) for name in self._layouts for fact in initial[name])

    def members(self, kind: str) -> frozenset[int]:
        """The things of a type or of one of its subtypes; every type is a kind of ``object``."""
        known = self._members.get(kind)
        if known is None:
            known = frozenset(i for i, own in enumerate(self.kinds) if self._is_a(own, kind))
            self._members[kind] = known
        return known

    def _is_a(self, kind: str, ancestor: str) -> bool:
        while kind != ancestor and kind != "object":
            kind = self._parents.get(kind, "object")
        return kind == ancestor

    def candidates(self, conjunction: Conjunction) -> dict[str, frozenset[int]]:
        """For each variable the things that could ever stand there, looking at one argument place at a time."""
        known = self._candidates.get(id(conjunction))
        if known is None:
            known = self._candidates[id(conjunction)] = (conjunction, self._find_candidates(conjunction))
        return known[1]

    def _find_candidates(self, conjunction: Conjunction) -> dict[str, frozenset[int]]:
        possible = {name: self.members(kind) for name, kind in conjunction.variables.items()}
        for literal in conjunction.literals:
            if literal.positive and literal.predicate != "=":
                for position, term in enumerate(literal.terms):
                    if term in possible:
                        possible[term] &= self._columns.get((literal.predicate, position), frozenset())
        return possible

    def _reachable_columns(
        self, domain: Domain, initial: Mapping[str, list[Fact]]
    ) -> dict[tuple[str, int], frozenset[int]]:
        """For each argument place of each predicate the things that actions can ever bring there."""
        self._columns = {}
        for name, facts in initial.items():
            for position, column in enumerate(zip(*facts, strict=True)):
                self._columns[name, position] = frozenset(column)
        grown = True
        while grown:
            grown = False
            for schema in domain.schemas:
                for conjunction in schema.preconditions:
                    possible = self._find_candidates(conjunction)
                    if not all(possible.values()):
                        continue
                    for literal in (effect.literal for effect in schema.effects if effect.literal.positive):
                        for position, term in enumerate(literal.terms):
                            place = (literal.predicate, position)
                            known = self._columns.get(place, frozenset())
                            if not possible[term] <= known:
                                self._columns[place] = known | possible[term]
                                grown = True
        return self._columns

    def _lay_out(self) -> dict[str, _Layout]:
        layouts: dict[str, _Layout] = {}
        base = 0
        for name in sorted(self.changing):
            arity = 1 + max((position for predicate, position in self._columns if predicate == name), default=-1)
            size, ranks, values = 1, [], []
            for position in range(arity):
                column = sorted(self._columns[name, position])
                values.append(column)
                ranks.append({value: rank * size for rank, value in enumerate(column)})
                size *= len(column)
            if arity:
                layouts[name] = _Layout(base, size, tuple(ranks), tuple(values))
                base += size
        self.width = base
        return layouts

    def bit(self, predicate: str, fact: Fact) -> int:
        """The integer with only this fact's bit set; 0 for a fact that can never be true."""
        layout = self._layouts.get(predicate)
        if layout is None or len(fact) != len(layout.ranks):
            return 0
        position = layout.base
        for ranks, value in zip(layout.ranks, fact, strict=True):
            if value not in ranks:
                return 0
            position += ranks[value]
        return 1 << position

    def bits(self, facts: Iterable[tuple[str, Fact]]) -> int:
        """The integer with the bits of all these facts set."""
        state = 0
        for predicate, fact in facts:
            state |= self.bit(predicate, fact)
        return state

    def mask(self, predicate: str, allowed: tuple[frozenset[int] | None, ...]) -> int:
        """The bits of every fact whose arguments are among those allowed (None: any), place by place."""
        key = (predicate, allowed)
        known = self._masks.get(key)
        if known is None:
            known = self._masks[key] = self._make_mask(predicate, allowed)
        return known

    def _make_mask(self, predicate: str, allowed: tuple[frozenset[int] | None, ...]) -> int:
        layout = self._layouts.get(predicate)
        if layout is None or len(allowed) != len(layout.ranks):
            return 0
        result = 1 << layout.base
        for ranks, values, wanted in zip(layout.ranks, layout.values, allowed, strict=True):
            widened = 0
            for value in values if wanted is None else wanted:
                if value in ranks:
                    widened |= result << ranks[value]
            result = widened
        return result

    def pattern_mask(self, predicate: str, pattern: tuple[int | None, ...]) -> int:
        """`mask` for one value or any (None) in each place."""
        key = (predicate, pattern)
        known = self._pattern_masks.get(key)
        if known is None:
            allowed = tuple(None if value is None else frozenset((value,)) for value in pattern)
            known = self._pattern_masks[key] = self._make_mask(predicate, allowed)
        return known

    def column(self, predicate: str, position: int) -> frozenset[int]:
        """The things that can ever stand in one argument place of a predicate."""
        return self._columns.get((predicate, position), frozenset())

    def mask_of(self, predicate: str) -> int:
        """The bits of every fact of a predicate; 0 for a predicate that never changes."""
        layout = self._layouts.get(predicate)
        return ((1 << layout.size) - 1) << layout.base if layout else 0

    def decode(self, bit: int) -> tuple[str, Fact]:
        """Predicate and arguments of an integer with one bit set."""
        known = self._decoded.get(bit)
        if known is None:
            position = bit.bit_length() - 1
            name, layout = next((n, x) for n, x in self._layouts.items() if x.base <= position < x.base + x.size)
            rest, fact = position - layout.base, []
            for values in layout.values:
                rest, rank = divmod(rest, len(values))
                fact.append(values[rank])
            known = self._decoded[bit] = (name, tuple(fact))
        return known

    def true_facts(self, state: int) -> Iterator[tuple[str, Fact]]:
        """The facts whose bits are set."""
        while state:
            low = state & -state
            state ^= low
            yield self.decode(low)

    def constant_facts(self, predicate: str, pattern: tuple[int | None, ...]) -> Sequence[Fact]:
        """The constant facts that have the pattern's values where it is not None, in the order of ids."""
        key = (predicate, pattern)
        known = self._fitting.get(key)
        if known is None:
            known = self._fitting[key] = self._find_constant_facts(predicate, pattern)
        return known

    def _find_constant_facts(self, predicate: str, pattern: tuple[int | None, ...]) -> Sequence[Fact]:
        given = [(position, value) for position, value in enumerate(pattern) if value is not None]
        if not given:
            return sorted(self.constant.get(predicate, ()))
        columns = [self._by_argument.get((predicate, position, value), ()) for position, value in given]
        return [fact for fact in min(columns, key=len) if all(fact[position] == value for position, value in given)]

    def solve(self, conjunction: Conjunction, binding: Binding) -> Iterator[Binding]:
        """Every way to choose the unbound variables so that the literals over constant facts hold.

        Literals over changing facts are left to the caller.
        """
        key = (id(conjunction), tuple(binding))
        join = self._joins.get(key)
        if join is None:
            join = self._joins[key] = self._order(conjunction, set(binding))
        yield from self._extend(join, 0, binding)

    def _order(self, conjunction: Conjunction, bound: set[str]) -> "_Join":
        """The order in which to match literals: always the one with the fewest unbound variables."""
        pending = [x for x in conjunction.literals if x.predicate not in self.changing]
        matchable = [x for x in pending if x.positive and x.predicate != "="]
        steps = []
        while matchable:
            literal = min(matchable, key=lambda x: sum(t in conjunction.variables and t not in bound for t in x.terms))
            matchable.remove(literal)
            bound.update(term for term in literal.terms if term in conjunction.variables)
            steps.append(literal)
        free = [
            (name, sorted(self.candidates(conjunction)[name])) for name in conjunction.variables if name not in bound
        ]
        return _Join(conjunction, tuple(steps), tuple(free), tuple(x for x in pending if x not in steps))

    def _extend(self, join: "_Join", step: int, binding: Binding) -> Iterator[Binding]:
        while step < len(join.steps):
            literal = join.steps[step]
            pattern = tuple([self._value(term, binding) for term in literal.terms])
            if None in pattern:
                for extended in self._matches(join.conjunction, literal, pattern, binding):
                    yield from self._extend(join, step + 1, extended)
                return
            if pattern not in self.constant.get(literal.predicate, ()):
                return
            step += 1
        if step < len(join.steps) + len(join.free):
            name, values = join.free[step - len(join.steps)]
            for value in values:
                yield from self._extend(join, step + 1, {**binding, name: value})
        elif not join.checks or all(self._checks(literal, binding) for literal in join.checks):
            yield binding

    def _matches(
        self, conjunction: Conjunction, literal: Literal, pattern: tuple[int | None, ...], binding: Binding
    ) -> Iterator[Binding]:
        for fact in self.constant_facts(literal.predicate, pattern):
            extended = dict(binding)
            for term, value in zip(literal.terms, fact, strict=True):
                if term in conjunction.variables and term not in extended:
                    if value not in self.members(conjunction.variables[term]):
                        break
                    extended[term] = value
                elif self._value(term, extended) != value:
                    break
            else:
                yield extended

    def _checks(self, literal: Literal, binding: Binding) -> bool:
        fact = self.fact_of(literal, binding)
        if literal.predicate == "=":
            return (fact[0] == fact[1]) == literal.positive
        return (fact in self.constant.get(literal.predicate, ())) == literal.positive

    def _value(self, term: str, binding: Binding) -> int | None:
        """A term's value: None for a variable not yet chosen, -1 for a constant that the game has not."""
        return binding.get(term) if term[0] == "?" else self.index.get(term, -1)

    def fact_of(self, literal: Literal, binding: Binding) -> Fact:
        """The literal's arguments under a full binding."""
        return tuple([binding[term] if term in binding else self.index.get(term, -1) for term in literal.terms])

    def narrow(self, conjunction: Conjunction, binding: Binding) -> dict[str, frozenset[int]] | None:
        """For each variable the things that could stand there under a partial binding: a superset, found cheaply.

        None where some variable has nothing left.
        """
        key = (id(conjunction), tuple(binding))
        known = self._narrowings.get(key)
        if known is None:
            known = self._narrowings[key] = self._narrowing(conjunction, binding)
        possible = dict(known.possible)
        for name, value in binding.items():
            possible[name] = frozenset((value,))
        for literal, variable, place in known.dependent:
            values = self._projection(literal.predicate, tuple([self._value(t, binding) for t in literal.terms]), place)
            possible[variable] &= values
        return possible if all(possible.values()) else None

    def _narrowing(self, conjunction: Conjunction, binding: Binding) -> "_Narrowing":
        """What constant facts about one unbound variable say: at once, or once the bound ones have values."""
        possible = dict(self.candidates(conjunction))
        dependent = []
        for literal in conjunction.literals:
            unbound = [term for term in literal.terms if term[0] == "?" and term not in binding]
            if literal.positive and literal.predicate in self.constant and len(unbound) == 1:
                place = literal.terms.index(unbound[0])
                if any(term in binding for term in literal.terms):
                    dependent.append((literal, unbound[0], place))
                else:
                    pattern = tuple(self._value(term, binding) for term in literal.terms)
                    possible[unbound[0]] &= self._projection(literal.predicate, pattern, place)
        return _Narrowing(conjunction, possible, tuple(dependent))

    def _projection(self, predicate: str, pattern: tuple[int | None, ...], place: int) -> frozenset[int]:
        """What stands in one argument place of the constant facts that fit a pattern."""
        key = (predicate, pattern, place)
        known = self._projections.get(key)
        if known is None:
            facts = self.constant_facts(predicate, pattern)
            known = self._projections[key] = frozenset([fact[place] for fact in facts])
        return known

    def reach(self, literal: Literal, possible: Mapping[str, frozenset[int]]) -> int:
        """The bits of the facts that ``literal`` can be, with variables among those possible."""
        return self.mask(
            literal.predicate,
            tuple([possible[t] if t[0] == "?" else frozenset((self.index.get(t, -1),)) for t in literal.terms]),
        )
