"""Telling a game's state in the words of its grammar."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from services.env_server.environments.alfworld.facts import FactTable
from services.env_server.environments.alfworld.grammar import (
    Conditional,
    Expression,
    Grammar,
    GrammarError,
    Phrase,
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


_TEXTS_KEPT = 1024
"""Texts remembered per tale before they are forgotten all at once."""


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
        self.table = table
        self.things = things
        self._goal = goal

    def tell(self, symbols: Sequence[Symbol], mapping: Mapped, situation: Situation) -> str:
        """The text that the symbols derive to."""
        return "".join(self._derive(symbols, mapping, situation))

    def asked(self, *, negated: bool = False) -> frozenset[str]:
        """The predicates that some rule asks about (``negated``: with ``not_``)."""
        rules = [rule for named in self._grammar.rules.values() for rule in named]
        asked = [query for rule in rules for query in rule.condition]
        for rule in rules:
            for symbol in rule.symbols:
                if isinstance(symbol, Conditional):
                    asked.extend(symbol.given)
        return frozenset(query.predicate for query in asked if query.negated or not negated)

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
                answers = self._answers(symbol.given, mapping, situation)
                items = [self._say(symbol.expression, answer, situation) for answer in answers]
                yield self._listed(items, mapping, situation) if symbol.as_list else "".join(items)

    def _refer(self, name: str, mapping: Mapped, situation: Situation) -> str:
        for rule in self._rules(name):
            if not rule.condition or next(self._answers(rule.condition, mapping, situation), None) is not None:
                return self.tell(rule.symbols, mapping, situation)
        raise GrammarError(f"the grammar has no rule for #{name}# that fits the state of the game")

    def _say(self, expression: Expression | Reference, mapping: Mapped, situation: Situation) -> str:
        if isinstance(expression, Reference):
            return self._refer(expression.name, mapping, situation)
        names, things = expression.names, self.things
        return expression.evaluate({name: things[thing] for (name, _), thing in mapping.items() if name in names})

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
        query, more = queries[0], queries[1:]
        for fact in self._matching(query, mapping, situation):
            extended = dict(mapping)
            for placeholder, thing in zip(query.placeholders, fact, strict=True):
                known = extended.get(placeholder)
                if known is None:
                    if thing in extended.values() or thing not in self.table.members(placeholder[1]):
                        break
                    extended[placeholder] = thing
                elif known != thing:
                    break
            else:
                if more:
                    yield from self._answers(more, extended, situation)
                else:
                    yield extended

    def _matching(self, query: Query, mapping: Mapped, situation: Situation) -> Iterable[tuple[int, ...]]:
        pattern = tuple([mapping.get(placeholder) for placeholder in query.placeholders])
        if query.predicate in self.table.changing:
            facts = situation.removed if query.negated else situation.facts
            found = facts & self.table.pattern_mask(query.predicate, pattern)
            return sorted([fact for _, fact in self.table.true_facts(found)]) if found else ()
        return () if query.negated else self.table.constant_facts(query.predicate, pattern)


class Tale:
    """What a phrase says about certain things, depending on the state; remembers what it said."""

    __slots__ = ("_facts", "_mapping", "_narrator", "_phrase", "_removed", "_texts")

    def __init__(self, narrator: Narrator, phrase: Phrase, mapping: Mapped, reads: tuple[int, int]) -> None:
        """``reads`` are the bits of (facts, removed) that the text can depend on."""
        self._narrator, self._phrase, self._mapping = narrator, phrase, mapping
        self._facts, self._removed = reads
        self._texts: dict[tuple[int, int], str] = {}

    def tell(self, facts: int, removed: int) -> str:
        """The text in a situation."""
        key = (facts & self._facts, removed & self._removed)
        text = self._texts.get(key)
        if text is None:
            if len(self._texts) >= _TEXTS_KEPT:
                self._texts.clear()
            text = self._narrator.tell(self._phrase.symbols, self._mapping, Situation(facts, removed))
            self._texts[key] = text
        return text


class Voice:
    """One phrase of an action, for whatever arguments. Arguments that cannot make a difference share one `Tale`."""

    def __init__(self, narrator: Narrator, phrase: Phrase, parameters: Sequence[Placeholder]) -> None:
        """``parameters`` are the action's, in order."""
        self._narrator, self._phrase, self._parameters = narrator, phrase, parameters
        self._mentioned = [i for i, (name, _) in enumerate(parameters) if name in phrase.names]
        self._unmentioned = [i for i, (name, _) in enumerate(parameters) if name not in phrase.names]
        # No two placeholders stand for one thing, so even an argument that is never mentioned keeps others from it.
        self._contested: set[int] = set()
        for query in phrase.queries:
            for position, placeholder in enumerate(query.placeholders):
                if placeholder not in parameters:
                    self._contested |= narrator.table.column(query.predicate, position)
        self._tales: dict[tuple[int, ...], Tale] = {}
        self._plain = _plain(phrase.symbols)
        self._plain_texts: dict[tuple[int, ...], str] = {}

    def depends_on(self, position: int) -> bool:
        """Whether the argument in this place can make a difference to the text."""
        return position in self._mentioned or not self._contested.isdisjoint(
            self._narrator.table.members(self._parameters[position][1])
        )

    def text(self, arguments: Sequence[int], facts: int) -> str:
        """What the phrase says about these arguments, where it does not depend on anything that changes."""
        key = tuple([arguments[i] for i in self._mentioned])
        if self._plain is None:
            return self.about(arguments).tell(facts, 0)
        text = self._plain_texts.get(key)
        if text is None:
            things = {self._parameters[i][0]: self._narrator.things[arguments[i]] for i in self._mentioned}
            text = "".join([x if isinstance(x, str) else x.evaluate(things) for x in self._plain])
            self._plain_texts[key] = text
        return text

    def about(self, arguments: Sequence[int]) -> Tale:
        """What the phrase says about these arguments."""
        key = [arguments[i] for i in self._mentioned]
        key += [arguments[i] for i in self._unmentioned if arguments[i] in self._contested]
        tale = self._tales.get(tuple(key))
        if tale is None:
            mapping = dict(zip(self._parameters, arguments, strict=True))
            tale = self._tales[tuple(key)] = Tale(self._narrator, self._phrase, mapping, self._reads(mapping))
        return tale

    def _reads(self, mapping: Mapped) -> tuple[int, int]:
        table = self._narrator.table
        facts = removed = 0
        for query in self._phrase.queries:
            if query.predicate in table.changing:
                mask = table.pattern_mask(query.predicate, tuple([mapping.get(ph) for ph in query.placeholders]))
                if query.negated:
                    removed |= mask
                else:
                    facts |= mask
        return facts, removed


def _plain(symbols: Sequence[Symbol]) -> tuple[str | Expression, ...] | None:
    """The parts of a phrase that asks no questions; None for one that does."""
    parts: list[str | Expression] = []
    for symbol in symbols:
        if isinstance(symbol, Text):
            parts.append(symbol.text)
        elif isinstance(symbol, Conditional) and isinstance(symbol.expression, Expression) and not symbol.given:
            parts.append(symbol.expression)
        else:
            return None
    return tuple(parts)
