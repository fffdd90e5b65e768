"""Reading the text grammar of a game (twl2): the wording of commands and of what the game answers.

A twl2 file holds ``grammar :: \"\"\"{json}\"\"\";`` blocks and ``action Name { template, feedback, grammar }`` blocks.
A rule's right-hand side mixes literal text, ``#symbol#``, ``{expression}``, ``{expression | query}`` and lists
``[{expression | query}]``; its condition is a conjunctive query over the game's facts.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from services.env_server.environments.base import EnvironmentDataError


class GrammarError(EnvironmentDataError):
    """The text grammar is malformed or uses a construct that the engine does not know."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something in a game, as the grammar's expressions can speak about it."""

    id: str
    type: str
    name: str
    definite: str = "the"
    indefinite: str = "a"


Placeholder: TypeAlias = tuple[str, str]
"""(name, type), such as ``("r", "receptacle")``: two with one name and different types are different."""


@dataclass(frozen=True, slots=True)
class Expression:
    """What stands in curly brackets: a text made of the things that placeholders of these names stand for."""

    names: frozenset[str]
    evaluate: Callable[[Mapping[str, Thing]], str]


@dataclass(frozen=True, slots=True)
class Query:
    """One predicate of a conjunctive query. ``negated`` asks for facts that an action explicitly took away."""

    predicate: str
    placeholders: tuple[Placeholder, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """``#name#``: to be derived by the rules of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Conditional:
    """``{expression | given}``: the expression once for each answer to the query (once where there is none)."""

    expression: "Expression | Reference"
    given: tuple[Query, ...]
    as_list: bool
    """In square brackets: the answers are joined with commas and an ``and``, as the grammar words them."""


Symbol: TypeAlias = Text | Reference | Conditional


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to derive a symbol, taken when its condition (empty: always) has an answer."""

    condition: tuple[Query, ...]
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Symbols, with everything that deriving them can ask: queries, and the names of placeholders."""

    symbols: tuple[Symbol, ...]
    queries: tuple[Query, ...]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class ActionText:
    """How a command is written, and how the game answers it."""

    template: Phrase
    feedback: Phrase


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by symbol, and actions by lower-cased name."""

    rules: Mapping[str, tuple[Rule, ...]]
    actions: Mapping[str, ActionText]


_TWL2 = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
      | (?P<block>\"\"\"(?:.|\n)*?\"\"\")
      | (?P<string>"[^"]*")
      | (?P<mark>::|[{};])
      | (?P<name>[\w/-]+)""",
    re.VERBOSE,
)
_GIVEN = re.compile(r"(\w+)\(([^()]*)\)")


@lru_cache(maxsize=256)
def parse_grammar(text: str) -> Grammar:
    """Parse a twl2 text. Raises `GrammarError`. Results are kept, so share texts among games where that is possible."""
    tokens = _tokens(text)
    definitions: dict[str, list[dict[str, str]]] = {}
    written: dict[str, tuple[tuple[Symbol, ...], tuple[Symbol, ...]]] = {}
    for kind, value in tokens:
        if value == "grammar":
            definitions.update(json.loads(_field(tokens)))
        elif value == "action":
            name = _expect(tokens, "name")
            fields = _action_fields(tokens)
            if "template" not in fields or "feedback" not in fields:
                raise GrammarError(f"the grammar's action {name} lacks its template or its feedback")
            lines = fields.get("grammar", "{}").split("\n")
            definitions.update(json.loads("\n".join(line for line in lines if not line.lstrip().startswith("#"))))
            written[name.lower()] = (parse_symbols(fields["template"]), parse_symbols(fields["feedback"]))
        else:
            raise GrammarError(f"the grammar has {kind} {value[:40]!r} where a grammar or an action should start")
    rules = {
        name: tuple(Rule(parse_query(way.get("condition", "")), parse_symbols(way["rhs"])) for way in ways)
        for name, ways in definitions.items()
    }
    actions = {
        name: ActionText(_phrase(template, rules), _phrase(feedback, rules))
        for name, (template, feedback) in written.items()
    }
    return Grammar(rules, actions)


def _phrase(symbols: tuple[Symbol, ...], rules: Mapping[str, tuple[Rule, ...]]) -> Phrase:
    queries: dict[Query, None] = {}
    names: set[str] = set()
    seen: set[str] = set()
    pending: list[Symbol] = list(symbols)
    while pending:
        symbol = pending.pop()
        reference = symbol if isinstance(symbol, Reference) else None
        if isinstance(symbol, Conditional):
            queries.update(dict.fromkeys(symbol.given))
            if isinstance(symbol.expression, Reference):
                reference = symbol.expression
            else:
                names |= symbol.expression.names
        if reference is not None and reference.name not in seen:
            seen.add(reference.name)
            for rule in rules.get(reference.name, ()):
                queries.update(dict.fromkeys(rule.condition))
                pending.extend(rule.symbols)
    names.update(name for query in queries for name, _ in query.placeholders)
    return Phrase(symbols, tuple(queries), frozenset(names))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TWL2.match(text, position)
        if match is None:
            raise GrammarError(f"the grammar is malformed at {text[position : position + 40]!r}")
        position = match.end()
        kind = match.lastgroup or ""
        if kind != "skip":
            yield kind, match.group()


def _expect(tokens: Iterator[tuple[str, str]], *wanted: str) -> str:
    """The next token, which must be of a wanted kind or be the wanted mark."""
    kind, value = next(tokens, ("end", ""))
    if kind not in wanted and value not in wanted:
        raise GrammarError(f"the grammar has {value[:40]!r} where {' or '.join(wanted)} should stand")
    return value


def _field(tokens: Iterator[tuple[str, str]]) -> str:
    """The value after a field's name: ``:: "…";`` or a triple-quoted block."""
    _expect(tokens, "::")
    value = _expect(tokens, "block", "string")
    _expect(tokens, ";")
    return value[3:-3] if value.startswith('"""') else value[1:-1]


def _action_fields(tokens: Iterator[tuple[str, str]]) -> dict[str, str]:
    _expect(tokens, "{")
    fields: dict[str, str] = {}
    while (name := _expect(tokens, "name", "}")) != "}":
        fields[name] = _field(tokens)
    return fields


@lru_cache(maxsize=4096)
def parse_query(text: str) -> tuple[Query, ...]:
    """``p(x:t, y:u) & not_q(x:t)`` as queries, in order."""
    queries = []
    for predicate, arguments in _GIVEN.findall(text):
        placeholders = []
        for argument in filter(None, (part.strip() for part in arguments.split(","))):
            name, _, kind = argument.partition(":")
            placeholders.append((name.strip(), (kind or name).strip()))
        negated = predicate.startswith("not_")
        queries.append(Query(predicate.removeprefix("not_"), tuple(placeholders), negated))
    if text.strip() and not queries:
        raise GrammarError(f"the grammar's condition {text!r} is not a conjunction of predicates")
    return tuple(queries)


_LITERAL = re.compile(r'[^;|"<>\[\]#{}]+')
_QUOTED = re.compile(r'"([^;|"<>\[\]#{}]*)"')
_REFERENCE = re.compile(r"#([\w()/!<>\-\s,.]+)#")
_CONDITIONAL = re.compile(
    r"(?P<open>\[\s*)?\{(?:\#(?P<reference>[^\#]+)\#|(?P<expression>[^|\[\]{}\n<>]+?))"
    r"(?:\s*\|\s*(?P<given>[^;|{}\n\[\]\#]+))?\}(?(open)\s*\])"
)


@lru_cache(maxsize=4096)
def parse_symbols(text: str) -> tuple[Symbol, ...]:
    """Parse a right-hand side.

    As in stock, white space that starts it and tabs that start a symbol are dropped, and text from the first character
    that fits nowhere is ignored.
    """
    symbols: list[Symbol] = []
    text = text.replace("\\n", "\n")
    position = len(text) - len(text.lstrip())
    while position < len(text):
        if text[position] == "\t":
            position += 1
            continue
        if match := _CONDITIONAL.match(text, position):
            expression = Reference(match["reference"]) if match["reference"] else _expression(match["expression"])
            symbols.append(Conditional(expression, parse_query(match["given"] or ""), match["open"] is not None))
        elif match := _REFERENCE.match(text, position):
            symbols.append(Reference(match[1]))
        elif match := _QUOTED.match(text, position):
            symbols.append(Text(match[1]))
        elif match := _LITERAL.match(text, position):
            symbols.append(Text(match[0]))
        else:
            break
        position = match.end()
    return tuple(symbols)


def _expression(source: str) -> Expression:
    """Compile the few forms of Python expression that grammars use: names, attributes, strings, ``+`` and ``or``."""
    try:
        body = ast.parse(source.strip(), mode="eval").body
    except SyntaxError as error:
        raise GrammarError(f"the grammar's expression {source!r} is malformed") from error
    return Expression(frozenset(n.id for n in ast.walk(body) if isinstance(n, ast.Name)), _compile(body))


def _compile(node: ast.expr) -> Callable[[Mapping[str, Thing]], str]:
    match node:
        case ast.Constant(value=str(text)):
            return lambda things: text
        case ast.Name(id=name):
            return lambda things: things[name].name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in Thing.__slots__:
            return lambda things: str(getattr(things[name], attribute))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _compile(left), _compile(right)
            return lambda things: first(things) + second(things)
        case ast.BoolOp(op=ast.Or(), values=values):
            options = [_compile(value) for value in values]
            return lambda things: next((text for option in options if (text := option(things))), options[-1](things))
        case _:
            raise GrammarError(f"the grammar's expression {ast.unparse(node)!r} has more than names, strings, + and or")
