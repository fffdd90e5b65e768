"""Reading a recipe from TOML, with errors that name the field, the value and what would be right."""

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from shared.files import write_atomically
from shared.recipe.environment import PromptSettings
from shared.recipe.model import Recipe
from shared.schemas.environment import InfoValue
from shared.telemetry import without_secrets

TomlTable = dict[str, Any]
"""What `tomllib` gives; it becomes a `Recipe` before anybody else sees it."""


class RecipeError(Exception):
    """A recipe that cannot be used. The message has one line a fault."""


@dataclass(frozen=True, slots=True)
class RecipeFault:
    """One thing that is wrong with a recipe."""

    field: str
    """Dotted name, such as ``environments.0.max_steps``; ``recipe`` for what concerns several tables."""
    value: str | None
    """What stands there, shortened; None where nothing does, or something that should not."""
    message: str
    """What would be right."""

    def __str__(self) -> str:
        """On one line."""
        return f"{self.field}: {self.message}" if self.value is None else f"{self.field} = {self.value}: {self.message}"


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe file; paths in it come back absolute. Raises `RecipeError`.

    ``overrides`` are lines of TOML with dotted keys, ``rollout.group_size=4``, that replace what the file says;
    ``environments.webshop.max_steps=10`` goes into the environment of that name.
    """
    return parse_recipe(_read(path), str(path), path.resolve().parent, overrides)


def load_document(path: Path, overrides: Sequence[str] = ()) -> TomlTable:
    """A recipe file as its TOML reads, ``overrides`` laid over it: what is sent to another machine, which checks it.

    Paths in it stay as they are written. Raises `RecipeError` for what is not TOML.
    """
    return _document(_read(path), str(path), overrides)


def parse_recipe(text: str, origin: str, folder: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Check a recipe's text; ``origin`` names it in errors, ``folder`` anchors relative paths. Raises `RecipeError`."""
    document = _document(text, origin, overrides)
    try:
        recipe = Recipe.model_validate(document)
    except ValidationError as error:
        faults = "\n".join(f"  {fault}" for fault in recipe_faults(error))
        raise RecipeError(f"{origin} is not a valid recipe:\n{faults}") from error
    model = recipe.model.model_copy(update={"path": (folder / recipe.model.path).resolve()})
    environments = [
        environment.model_copy(update={"prompt": _anchored(environment.prompt, folder)})
        for environment in recipe.environments
    ]
    anchored = {"model": model, "prompt": _anchored(recipe.prompt, folder), "environments": environments}
    return recipe.model_copy(update=anchored)


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe as `recipe_text` spells it."""
    write_atomically(path, recipe_text(recipe).encode())


def recipe_text(recipe: Recipe) -> str:
    """A recipe as TOML with every default spelled out, so that it means the same in another folder and release.

    An environment's tables have only what differs from the job's, as a person would write them.
    """
    document = recipe.model_dump(mode="json", exclude_none=True)
    for environment in document["environments"]:
        for table in ("prompt", "sampling", "reward"):
            environment[table] = {
                key: value for key, value in environment[table].items() if value != document[table].get(key)
            }
            if not environment[table]:
                del environment[table]
    return tomli_w.dumps(document)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise RecipeError(f"cannot read the recipe {path}: {error.strerror}. configs/ holds ready ones.") from error


def _document(text: str, origin: str, overrides: Sequence[str]) -> TomlTable:
    document = _toml(text, origin)
    for override in overrides:
        _merge(document, _override(override))
    return document


def _override(override: str) -> TomlTable:
    try:
        return tomllib.loads(override)
    except tomllib.TOMLDecodeError as error:
        key, _, value = override.partition("=")
        remedy = f"; a text takes quotes: '{key}=\"{value}\"'" if value and value[0].isalpha() else ""
        raise RecipeError(f"the override {override!r} is not valid TOML: {error}{remedy}") from error


def _anchored(prompt: PromptSettings, folder: Path) -> PromptSettings:
    """A template that is a path, made absolute."""
    if not prompt.template.endswith(".jinja"):
        return prompt
    return prompt.model_copy(update={"template": str((folder / prompt.template).resolve())})


def _toml(text: str, origin: str) -> TomlTable:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{origin} is not valid TOML: {error}") from error


def _merge(document: TomlTable, changes: TomlTable) -> None:
    """Lay ``changes`` over ``document``, table by table."""
    for key, value in changes.items():
        present = document.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            _merge(present, value)
        elif isinstance(value, dict) and isinstance(present, list) and all(isinstance(one, dict) for one in present):
            _merge_by_name(present, key, value)
        else:
            document[key] = value


def _merge_by_name(tables: list[TomlTable], key: str, changes: TomlTable) -> None:
    """Lay changes over the tables of an array, each named by its ``name``. Raises `RecipeError` for an unknown one."""
    named = {str(table.get("name")): table for table in tables}
    for name, change in changes.items():
        if name not in named:
            raise RecipeError(f"{key}.{name}: the recipe has no such table; it has {', '.join(named)}")
        _merge(named[name], change)


def recipe_faults(error: ValidationError, root: type[BaseModel] = Recipe) -> list[RecipeFault]:
    """What the validation of a recipe, or of another ``root``, found: each fault with the name of its field."""
    return [_fault(found, root) for found in error.errors()]


def _fault(found: ErrorDetails, root: type[BaseModel]) -> RecipeFault:
    location = _as_written(found["loc"])
    field = ".".join(str(part) for part in location) or root.__name__.lower()
    if found["type"] == "extra_forbidden":
        return RecipeFault(field, None, f"unknown key{_nearest(found['loc'], root)}")
    if found["type"] == "missing":
        return RecipeFault(field, None, "required, and not given")
    if found["type"] == "union_tag_invalid":
        return RecipeFault(f"{field}.name", _shown(found["ctx"]["tag"]), f"should be {found['ctx']['expected_tags']}")
    message = found["msg"].removeprefix("Value error, ")
    # What is wrong with a table as a whole names the keys itself.
    value = None if isinstance(found["input"], dict) and found["type"] == "value_error" else _shown(found["input"])
    return RecipeFault(field, value, message)


def _as_written(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Where a fault is in the TOML: without the tag of an algorithm's settings, which stands in no key."""
    return location[:1] + location[2:] if location[:1] == ("algorithm",) else location


def _shown(value: InfoValue) -> str:
    text = without_secrets(repr(value))
    return text if len(text) <= 80 else text[:77] + "…"


def _nearest(location: tuple[int | str, ...], root: type[BaseModel]) -> str:
    known = list(_fields_at(location[:-1], root))
    close = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known here: {', '.join(known)})"


def _fields_at(location: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    """Names of the fields of the section that ``location`` leads to."""
    sections: list[type[BaseModel]] = [root]
    for part in location:
        if len(sections) > 1:  # one of several tables, and the part is the name that told which
            sections = [section for section in sections if section.model_fields["name"].default == part]
        elif isinstance(part, str):
            sections = _sections_in(sections[0].model_fields[part].annotation)
    return list(sections[0].model_fields)


def _sections_in(annotation: object) -> list[type[BaseModel]]:
    """The sections that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections_in(part)]
