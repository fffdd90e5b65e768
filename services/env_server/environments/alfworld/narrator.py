"""Telling a game's state in the words of its grammar."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from services.env_server.environments.alfworld.facts import FactTable
from services.env_server.environments.alfworld.grammar import (
    Conditional,
    Expression,
    Grammar,
    GrammarError,
    Placeholder,
    Query,
    Reference,
    Rule,
    Symbol,
    Text,
    Thing,
)

Mapped: TypeAlias = Mapping[Placeholder, int]
"""Which thing each placeholder stands for."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the narrator looks at: the true facts, and those that actions took away since the start, as bits."""

    facts: int
    removed: int


class Narrator:
    """Derives texts from a grammar, for one game."""

    def __init__(self, grammar: Grammar, table: FactTable, things: Sequence[Thing], goal: tuple[str, str]) -> None:
        """``goal`` is (what stands in the grammar's texts, what to show instead)."""
        self._grammar = grammar
        self._table = table
        self._things = things
        self._goal = goal

    def tell(self, symbols: Sequence[Symbol], mapping: Mapped, situation: Situation) -> str:
        """The text that the symbols derive to."""
        return "".join(self._derive(symbols, mapping, situation))

    def reads(self, symbols: Sequence[Symbol], mapping: Mapped) -> tuple[int, int]:
        """Which bits of (facts, removed) a text can depend on: the same bits give the same text."""
        facts = removed = 0
        for query in self._queries(symbols, set()):
            if query.predicate in self._table.changing:
                allowed = [None if (v := mapping.get(ph)) is None else (v,) for ph in query.placeholders]
                mask = self._table.mask(query.predicate, allowed)
                if query.negated:
                    removed |= mask
                else:
                    facts |= mask
        return facts, removed

    def asked(self, *, negated: bool = False) -> frozenset[str]:
        """The predicates that some rule asks about (``negated``: with ``not_``)."""
        every = [symbol for rules in self._grammar.rules.values() for rule in rules for symbol in rule.symbols]
        asked = [*self._queries(every, set())]
        asked += [query for rules in self._grammar.rules.values() for rule in rules for query in rule.condition]
        return frozenset(query.predicate for query in asked if query.negated or not negated)

    def _queries(self, symbols: Sequence[Symbol], seen: set[str]) -> Iterator[Query]:
        for symbol in symbols:
            names = []
            if isinstance(symbol, Reference):
                names.append(symbol.name)
            elif isinstance(symbol, Conditional):
                yield from symbol.given
                if isinstance(symbol.expression, Reference):
                    names.append(symbol.expression.name)
            for name in names:
                if name not in seen:
                    seen.add(name)
                    for rule in self._rules(name):
                        yield from rule.condition
                        yield from self._queries(rule.symbols, seen)

    def _rules(self, name: str) -> tuple[Rule, ...]:
        rules = self._grammar.rules.get(name)
        if not rules:
            raise GrammarError(f"the grammar refers to #{name}#, which it does not define")
        return rules

    def _derive(self, symbols: Sequence[Symbol], mapping: Mapped, situation: Situation) -> Iterator[str]:
        for symbol in symbols:
            if isinstance(symbol, Text):
                yield symbol.text.replace(*self._goal) if self._goal[0] in symbol.text else symbol.text
            elif isinstance(symbol, Reference):
                yield self._refer(symbol.name, mapping, situation)
            else:
                items = [
                    self._say(symbol.expression, m, situation) for m in self._answers(symbol.given, mapping, situation)
                ]
                yield self._listed(items, mapping, situation) if symbol.as_list else "".join(items)

    def _refer(self, name: str, mapping: Mapped, situation: Situation) -> str:
        for rule in self._rules(name):
            if not rule.condition or next(self._answers(rule.condition, mapping, situation), None) is not None:
                return self.tell(rule.symbols, mapping, situation)
        raise GrammarError(f"the grammar has no rule for #{name}# that fits the state of the game")

    def _say(self, expression: Expression | Reference, mapping: Mapped, situation: Situation) -> str:
        if isinstance(expression, Reference):
            return self._refer(expression.name, mapping, situation)
        variables: dict[str, Thing] = {name: self._things[thing] for (name, _), thing in mapping.items()}
        return expression(variables)

    def _listed(self, items: Sequence[str], mapping: Mapped, situation: Situation) -> str:
        if not items:
            return self._refer("list_empty", mapping, situation)
        if len(items) == 1:
            return items[0]
        separator = self._refer("list_separator", mapping, situation)
        return separator.join(items[:-1]) + self._refer("list_last_separator", mapping, situation) + items[-1]

    def _answers(self, queries: Sequence[Query], mapping: Mapped, situation: Situation) -> Iterator[Mapped]:
        """Every extension of the mapping under which all queries hold, in the order of ids, place by place.

        As in stock, two placeholders never stand for one thing.
        """
        if not queries:
            yield mapping
            return
        query = queries[0]
        for fact in self._matching(query, mapping, situation):
            extended = dict(mapping)
            for placeholder, thing in zip(query.placeholders, fact, strict=True):
                known = extended.get(placeholder)
                if known is None:
                    if thing in extended.values() or thing not in self._table.members(placeholder[1]):
                        break
                    extended[placeholder] = thing
                elif known != thing:
                    break
            else:
                yield from self._answers(queries[1:], extended, situation)

    def _matching(self, query: Query, mapping: Mapped, situation: Situation) -> Iterator[tuple[int, ...]]:
        pattern = [mapping.get(placeholder) for placeholder in query.placeholders]
        if query.predicate in self._table.changing:
            mask = self._table.mask(query.predicate, [None if value is None else (value,) for value in pattern])
            found = (situation.removed if query.negated else situation.facts) & mask
            yield from sorted(fact for _, fact in self._table.true_facts(found))
        elif not query.negated:
            yield from self._table.constant_facts(query.predicate, pattern)
