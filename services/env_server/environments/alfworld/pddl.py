"""Reading PDDL: the domain's action schemas, and a problem's objects, initial facts and goal.

Covers the part of PDDL that ALFRED-like domains use: typing, `and`, `or`, `not` over atoms, `exists`, equality and
conditional effects. Numbers (action costs) are read over: they decide nothing about which action is possible.
Everything is lower-cased, as PDDL is case-insensitive.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from services.env_server.environments.base import EnvironmentDataError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")

Tree: TypeAlias = "str | list[Tree]"


class PddlError(EnvironmentDataError):
    """The PDDL text is malformed or uses a construct that the engine does not know."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A predicate over terms (variables start with ``?``), or its negation."""

    predicate: str
    terms: tuple[str, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Literals that must all hold for some values of the variables, each with its type."""

    literals: tuple[Literal, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Effect:
    """A literal made true when ``conditions`` hold before the action (empty: always)."""

    literal: Literal
    conditions: tuple[Literal, ...] = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """An action before its parameters are chosen. It is possible when any of the conjunctions holds."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """(variable, type) in order."""
    preconditions: tuple[Conjunction, ...]
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """Action schemas by name, and for each type its direct parent."""

    schemas: tuple[Schema, ...]
    parents: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """Objects with their types, what is true at first, and the goal."""

    objects: Mapping[str, str]
    init: tuple[tuple[str, ...], ...]
    """Facts as (predicate, argument, …)."""
    goal: tuple[tuple[Conjunction, ...], ...]
    """All of these must hold; each holds when any of its conjunctions does."""


def parse_tree(text: str) -> Tree:
    """The nested list that a PDDL text stands for. Raises `PddlError` on unbalanced brackets."""
    stack: list[list[Tree]] = [[]]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            if not stack:
                raise PddlError("the PDDL text closes a bracket that it never opened")
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise PddlError("the PDDL text is not one balanced (define …) expression")
    return stack[0][0]


@lru_cache(maxsize=64)
def parse_domain(text: str) -> Domain:
    """Parse a domain; games share theirs, so the result is kept."""
    sections = _sections(parse_tree(text))
    schemas: list[Schema] = []
    parents: dict[str, str] = {}
    for section in sections:
        if section[0] == ":types":
            parents = {name: parent for name, parent in _typed_list(section[1:]) if name != "object"}
        elif section[0] == ":action":
            schemas.append(_schema(section))
    return Domain(tuple(schemas), parents)


def parse_problem(text: str) -> Problem:
    """Parse a problem."""
    objects: dict[str, str] = {}
    init: list[tuple[str, ...]] = []
    goal: tuple[tuple[Conjunction, ...], ...] = ()
    for section in _sections(parse_tree(text)):
        if section[0] == ":objects":
            objects = dict(_typed_list(section[1:]))
        elif section[0] == ":init":
            init = [tuple(map(_word, fact)) for fact in map(_expression, section[1:]) if fact[0] != "="]
        elif section[0] == ":goal":
            goal = tuple(_dnf(part) for part in _conjuncts(section[1]))
    if not objects or not goal:
        raise PddlError("the PDDL problem lacks its :objects or its :goal")
    return Problem(objects, tuple(dict.fromkeys(init)), goal)


def _sections(tree: Tree) -> Iterator[list[Tree]]:
    for part in _expression(tree)[1:]:
        yield _expression(part)


def _expression(tree: Tree) -> list[Tree]:
    if isinstance(tree, str):
        raise PddlError(f"expected a bracketed PDDL expression, found {tree!r}")
    return tree


def _word(tree: Tree) -> str:
    if not isinstance(tree, str):
        raise PddlError(f"expected a PDDL word, found {tree!r}")
    return tree


def _typed_list(parts: Sequence[Tree]) -> list[tuple[str, str]]:
    """``a b - t c`` → (a, t), (b, t), (c, object)."""
    result: list[tuple[str, str]] = []
    waiting: list[str] = []
    words = iter(map(_word, parts))
    for word in words:
        if word == "-":
            kind = next(words)
            result.extend((name, kind) for name in waiting)
            waiting = []
        else:
            waiting.append(word)
    return result + [(name, "object") for name in waiting]


def _schema(section: list[Tree]) -> Schema:
    name = _word(section[1])
    fields = {_word(section[i]): section[i + 1] for i in range(2, len(section) - 1, 2)}
    parameters = tuple(_typed_list(_expression(fields.get(":parameters", []))))
    conjunctions = tuple(
        Conjunction(c.literals, {**dict(parameters), **c.variables}) for c in _dnf(fields.get(":precondition", []))
    )
    return Schema(name, parameters, conjunctions, tuple(_effects(fields[":effect"], ())))


def _effects(tree: Tree, conditions: tuple[Literal, ...]) -> Iterator[Effect]:
    parts = _expression(tree)
    match parts[0] if parts else "and":
        case "and":
            for part in parts[1:]:
                yield from _effects(part, conditions)
        case "when":
            options = _dnf(parts[1])
            if len(options) != 1 or options[0].variables:
                raise PddlError("a conditional effect may only depend on a plain conjunction")
            yield from _effects(parts[2], conditions + options[0].literals)
        case "increase" | "assign":
            return
        case "forall":
            raise PddlError("effects over all objects (forall) are not supported")
        case "not":
            yield Effect(_literal(parts[1], positive=False), conditions)
        case _:
            yield Effect(_literal(parts, positive=True), conditions)


def _literal(tree: Tree, *, positive: bool) -> Literal:
    words = [_word(part) for part in _expression(tree)]
    return Literal(words[0], tuple(words[1:]), positive)


def _conjuncts(tree: Tree) -> list[Tree]:
    """The parts of a top-level ``and``, flattened."""
    parts = _expression(tree)
    if parts and parts[0] == "and":
        return [inner for part in parts[1:] for inner in _conjuncts(part)]
    return [tree]


def _dnf(tree: Tree) -> tuple[Conjunction, ...]:
    """The condition as alternatives, each a conjunction of literals with its ``exists`` variables."""
    parts = _expression(tree)
    match parts[0] if parts else "and":
        case "and":
            alternatives = [Conjunction((), {})]
            for part in parts[1:]:
                alternatives = [_join(left, right) for left in alternatives for right in _dnf(part)]
            return tuple(alternatives)
        case "or":
            return tuple(option for part in parts[1:] for option in _dnf(part))
        case "exists":
            variables = dict(_typed_list(_expression(parts[1])))
            return tuple(Conjunction(c.literals, {**variables, **c.variables}) for c in _dnf(parts[2]))
        case "not":
            inner = _expression(parts[1])
            if inner[0] in ("and", "or", "not", "exists", "forall"):
                raise PddlError("negation of anything but a single predicate is not supported")
            return (Conjunction((_literal(inner, positive=False),), {}),)
        case "forall" | "imply":
            raise PddlError(f"conditions with {parts[0]} are not supported")
        case _:
            return (Conjunction((_literal(parts, positive=True),), {}),)


def _join(left: Conjunction, right: Conjunction) -> Conjunction:
    """Both at once; quantified variables that happen to share a name are told apart."""
    renamed = {name: f"{name}~{len(left.variables)}" for name in right.variables if name in left.variables}
    literals = tuple(
        Literal(x.predicate, tuple(renamed.get(term, term) for term in x.terms), x.positive) for x in right.literals
    )
    variables = {renamed.get(name, name): kind for name, kind in right.variables.items()}
    return Conjunction(left.literals + literals, {**left.variables, **variables})
