"""JSON Schema as tables: one row a field, with its type in words, its default and what it means."""

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from fastapi.openapi.models import Schema
from pydantic import BaseModel

from site_pages.markdown import code, one_line, table

Definitions = Mapping[str, Schema]
LinkTo = Callable[[str], str]
"""Markdown for the name of a schema: a link, where the page has a section on it."""

_WORDS = {"integer": "integer", "number": "number", "string": "string", "boolean": "true or false", "null": "nothing"}


def model_schema(model: type[BaseModel]) -> tuple[Schema, Definitions]:
    """A pydantic model's schema, and those that it refers to."""
    schema = Schema.model_validate(model.model_json_schema())
    return schema, definitions_of(schema.defs)


def definitions_of(schemas: Mapping[str, Any] | None) -> Definitions:
    """Named schemas; the ones that allow everything are left out."""
    return {name: schema for name, schema in (schemas or {}).items() if isinstance(schema, Schema)}


def fields_of(schema: Schema) -> list[tuple[str, Schema]]:
    """The properties, in order; the ones that allow everything are left out."""
    return [(name, field) for name, field in (schema.properties or {}).items() if isinstance(field, Schema)]


def reference(schema: Schema) -> str | None:
    """The name of the schema that this one stands for, also where it allows null beside it."""
    if schema.ref is not None:
        return schema.ref.rpartition("/")[2]
    options = [one for one in (schema.anyOf or schema.allOf or []) if isinstance(one, Schema)]
    named = [one.ref for one in options if one.ref is not None]
    return named[0].rpartition("/")[2] if len(named) == 1 and len(options) <= 2 else None


def fields_table(
    schema: Schema,
    definitions: Definitions,
    link_to: LinkTo,
    anchor: str | None = None,
    names: Callable[[str], str] = str,
    head: str = "field",
) -> str:
    """A row for each property. With ``anchor`` each has an id, ``<anchor>.<name>``; ``names`` says what to call it."""
    rows = []
    for name, field in fields_of(schema):
        mark = f"{{ #{anchor}.{name} }}" if anchor else ""
        default = default_text(field, name in (schema.required or []), definitions)
        meaning = field.description or _description(field, definitions)
        rows.append((code(names(name)) + mark, type_text(field, definitions, link_to), default, one_line(meaning)))
    return table((head, "type", "default", "meaning"), rows)


def _description(field: Schema, definitions: Definitions) -> str | None:
    name = reference(field)
    return definitions[name].description if name is not None and name in definitions else None


def default_text(schema: Schema, required: bool, definitions: Definitions) -> str:
    """The default as code; that there is none."""
    if required:
        return "*required*"
    if "default" in schema.model_fields_set:
        value = schema.default.value if isinstance(schema.default, Enum) else schema.default
        if isinstance(value, dict) and (reference(schema) in definitions or schema.oneOf):
            return "its own defaults"
        return "unset" if value is None else code(json.dumps(value, ensure_ascii=False))
    if any(isinstance(one, Schema) and one.type == "null" for one in schema.anyOf or []):
        return "unset"
    return {"array": "`[]`", "object": "`{}`"}.get(str(schema.type), "see the meaning")


def type_text(schema: Schema, definitions: Definitions, link_to: LinkTo) -> str:
    """The type in words: values where they are few, links to other schemas, bounds behind it."""
    if schema.ref is not None:
        name = schema.ref.rpartition("/")[2]
        target = definitions.get(name)
        return _values(target.enum) if target is not None and target.enum is not None else link_to(name)
    options = schema.anyOf or schema.oneOf or schema.allOf
    if options:
        words = [type_text(one, definitions, link_to) for one in options if isinstance(one, Schema)]
        return " or ".join(dict.fromkeys(word for word in words if word != "nothing")) or "anything"
    if "const" in schema.model_fields_set:
        return _values([schema.const])
    if schema.enum is not None:
        return _values(schema.enum)
    return _plain(schema, definitions, link_to) + _bounds(schema)


def _values(values: list[Any]) -> str:
    return ", ".join(code(json.dumps(value, ensure_ascii=False)) for value in values)


def _plain(schema: Schema, definitions: Definitions, link_to: LinkTo) -> str:
    match schema.type:
        case "array":
            items = schema.items
            return f"list of {type_text(items, definitions, link_to)}" if isinstance(items, Schema) else "list"
        case "object":
            values = schema.additionalProperties
            return f"table of {type_text(values, definitions, link_to)}" if isinstance(values, Schema) else "object"
        case "string" if schema.format in ("path", "date-time", "binary"):
            return {"path": "path", "date-time": "time", "binary": "bytes"}[schema.format]
        case str(kind):
            return _WORDS[kind]
        case list(kinds):
            return " or ".join(_WORDS.get(kind, kind) for kind in kinds if kind != "null")
        case _:
            return "anything"


def _bounds(schema: Schema) -> str:
    signs = (
        ("≥", schema.minimum),
        (">", schema.exclusiveMinimum),
        ("≤", schema.maximum),
        ("<", schema.exclusiveMaximum),
    )
    bounds = [f"{sign} {_number(bound)}" for sign, bound in signs if bound is not None]
    if schema.pattern is not None:
        bounds.append(f"like {code(schema.pattern)}")
    return " " + ", ".join(bounds) if bounds else ""


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"
