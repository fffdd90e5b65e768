"""The reference of recipes: every key of every table, from the pydantic models."""

from collections.abc import Iterator
from dataclasses import dataclass

from fastapi.openapi.models import Schema

from shared.recipe import AlgorithmSettings, Recipe
from site_pages.markdown import page
from site_pages.schemas import Definitions, fields_of, fields_table, model_schema, reference

_INTRODUCTION = """A recipe is a TOML file. Every key has a default unless it says *required*. An unknown key is an
error that names the nearest right one, and `gagpo train RECIPE --set training.steps=50` sets a key from the command
line. The recipes in `configs/` are the ones to begin from: [alfworld-cpu.toml](../../configs/alfworld-cpu.toml) is
the demo's, [alfworld-qwen2.5-1.5b.toml](../../configs/alfworld-qwen2.5-1.5b.toml) has the literature's settings.
[GAGPO](../gagpo.md#choices) and [the other algorithms](../algorithms.md) explain what the `[algorithm]` keys do."""

_ALGORITHM = "algorithm"


@dataclass(frozen=True)
class _Table:
    """A table of the recipe: its TOML path, what its heading says, and the model's schema."""

    path: str
    heading: str
    name: str
    schema: Schema


def recipe_page() -> str:
    """The page. Its anchors are ``<table>`` and ``<table>.<key>``; an algorithm's are ``algorithm.<name>.<key>``."""
    recipe, definitions = model_schema(Recipe)
    tables = [table for key, field in fields_of(recipe) for table in _tables(key, field, definitions)]
    places = {table.name: table.path for table in reversed(tables)}

    def link_to(name: str) -> str:
        return f"table [`{places[name]}`](#{places[name]})" if name in places else "any value"

    inside = {table.path for table in tables}
    top = _only(recipe, [key for key, _ in fields_of(recipe) if key not in inside])
    parts = [_INTRODUCTION, "## Top level { #top }", fields_table(top, definitions, link_to, anchor="top", head="key")]
    for table in tables:
        parts += [f"{table.heading} {{ #{table.path} }}", table.schema.description or ""]
        parts.append(fields_table(table.schema, definitions, link_to, anchor=table.path, head="key"))
    return page("Recipe reference", *parts)


def _tables(path: str, field: Schema, definitions: Definitions) -> Iterator[_Table]:
    """The table that a field is, and those inside it that are no table of the job's own."""
    if path == _ALGORITHM:
        yield from _algorithms(field, definitions)
        return
    several = isinstance(field.items, Schema)
    name = reference(field.items if isinstance(field.items, Schema) else field)
    if name is not None and definitions[name].properties:
        yield _Table(path, f"## `[[{path}]]`" if several else f"## `[{path}]`", name, definitions[name])


def _algorithms(field: Schema, definitions: Definitions) -> Iterator[_Table]:
    """What all algorithms share; then for each what it has beside that, or with another default."""
    shared, _ = model_schema(AlgorithmSettings)
    yield _Table(_ALGORITHM, f"## `[{_ALGORITHM}]`", AlgorithmSettings.__name__, shared)
    yield from _inner(shared, definitions)
    common = dict(fields_of(shared))
    for option in field.oneOf or field.anyOf or []:
        name = reference(option) if isinstance(option, Schema) else None
        if name is not None:
            schema = definitions[name]
            fields = dict(fields_of(schema))
            own = _only(schema, [key for key, one in fields.items() if key != "name" and one != common.get(key)])
            word = str(fields["name"].const)
            yield _Table(f"{_ALGORITHM}.{word}", f'## `[{_ALGORITHM}]`, `name = "{word}"`', name, own)
            yield from _inner(own, definitions)


def _inner(schema: Schema, definitions: Definitions) -> Iterator[_Table]:
    for key, field in fields_of(schema):
        name = reference(field)
        if name is not None and definitions[name].properties:
            path = f"{_ALGORITHM}.{key}"
            yield _Table(path, f"### `[{path}]`", name, definitions[name])


def _only(schema: Schema, keys: list[str]) -> Schema:
    return schema.model_copy(update={"properties": {key: field for key, field in fields_of(schema) if key in keys}})
