"""The kinds of product that the shop sells, read once from the tables beside this module."""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

AREAS = ("fashion", "beauty", "electronics", "garden", "grocery")
"""The original's five categories; each has a table of departments."""


class Place(StrEnum):
    """Where an attribute stands in a sentence: ``<is> console tables with <with> for <for>``."""

    IS = "is"
    WITH = "with"
    FOR = "for"


@dataclass(frozen=True, slots=True)
class Slot:
    """One property of a kind of product, with the attributes that it may have; they exclude one another."""

    place: Place
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OptionPool:
    """An option group: its name and the values that a product draws from."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Department:
    """What the kinds of one shelf share. There is one object for each, so identity is equality."""

    area: str
    path: str
    slots: tuple[Slot, ...]
    looks: tuple[str, ...]
    """Adjectives of titles and descriptions; never attributes."""
    details: tuple[str, ...]
    """Things that titles and descriptions mention; never attributes."""
    pools: tuple[OptionPool, ...]
    price: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of product such as the console table. There is one object for each, so identity is equality."""

    department: Department
    name: str
    """As titles say it: ``console table``."""
    query: str
    """The plural, which is the search that it is found with: ``console tables``."""
    countable: bool
    """Whether there is an article before it."""
    plural: bool
    """Whether verbs after it are plural: ``jeans are``."""
    product_category: str
    nouns: tuple[str, ...]

    def described(self, *words: str) -> str:
        """The kind with words before it and an article where there is one: ``an elegant sun hat``."""
        text = " ".join((*words, self.name))
        if not self.countable:
            return text
        return f"an {text}" if text.startswith(("a", "e", "i", "o", "hdmi")) else f"a {text}"


class DepartmentTable(BaseModel):
    """A department as the tables write it; ``fashion.toml`` explains the fields."""

    model_config = ConfigDict(extra="forbid")

    path: str
    kinds: list[str]
    is_: list[str] = Field(alias="is")
    with_: list[str] = Field(alias="with")
    for_: list[str] = Field(alias="for")
    looks: tuple[str, ...]
    details: tuple[str, ...]
    options: list[str]
    price: tuple[float, float]

    def department(self, area: str, pools: dict[str, tuple[str, ...]]) -> Department:
        """The department with its slots split and its option pools looked up."""
        places = ((Place.IS, self.is_), (Place.WITH, self.with_), (Place.FOR, self.for_))
        slots = [Slot(place, tuple(text.split(" | "))) for place, texts in places for text in texts]
        groups = [option.split(": ") for option in self.options]
        return Department(
            area=area,
            path=self.path,
            slots=tuple(slots),
            looks=self.looks,
            details=self.details,
            pools=tuple(OptionPool(name, pools[pool]) for name, pool in groups),
            price=self.price,
        )


class AreaTable(BaseModel):
    """One area's file."""

    model_config = ConfigDict(extra="forbid")

    area: str
    department: list[DepartmentTable]


@cache
def load_kinds() -> tuple[Kind, ...]:
    """All kinds, in a fixed order: by area, department and place in the table."""
    pools = _lists("options")
    kinds: list[Kind] = []
    for area in AREAS:
        for table in AreaTable.model_validate(tomllib.loads(_text(area))).department:
            department = table.department(area, pools)
            kinds += [_kind(department, name) for name in table.kinds]
    return tuple(kinds)


def _text(table: str) -> str:
    return resources.files(__package__).joinpath("tables", f"{table}.toml").read_text(encoding="utf-8")


@cache
def _lists(table: str) -> dict[str, tuple[str, ...]]:
    """A table that is nothing but named lists."""
    return TypeAdapter(dict[str, tuple[str, ...]]).validate_python(tomllib.loads(_text(table)))


def _kind(department: Department, name: str) -> Kind:
    query = plural(name)
    return Kind(
        department=department,
        name=name,
        query=query,
        countable=query != name,
        plural=query == name and name not in _lists("words")["uncountable"],
        product_category=f"{department.path} › {title_case(query)}",
        nouns=nouns(name),
    )


def plural(name: str) -> str:
    """More than one of a kind; unchanged where there is no plural or the name is one already."""
    if name in _lists("words")["uncountable"] or (name.endswith("s") and not name.endswith("ss")):
        return name
    if name.endswith("mouse"):
        return f"{name.removesuffix('mouse')}mice"
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return name + ("es" if name.endswith(("ss", "sh", "ch", "x")) else "s")


def title_case(text: str) -> str:
    """Every word with a capital, possessives left alone: ``Women's Tank Top``."""
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


@cache
def nouns(text: str) -> tuple[str, ...]:
    """The nouns of a kind or an attribute, possessive endings dropped."""
    others = _lists("words")["not_nouns"]
    return tuple(word.removesuffix("'s") for word in text.split() if word not in others)
