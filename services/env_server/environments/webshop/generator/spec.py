"""What to generate. The one place where the knobs and the two styles are defined."""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.generator.asins import LARGEST_CATALOGUE
from services.env_server.environments.webshop.generator.kinds import AREAS

GENERATOR_VERSION = 2
"""Raised whenever equal arguments would give other products."""

LARGEST_FAMILY = 5


class Style(StrEnum):
    """How wordy products are."""

    RICH = "rich"
    """Like a real shop: long titles, descriptions, five bullets, invented brands without end, model numbers."""
    SIMPLE = "simple"
    """Titles of up to eight words of a closed vocabulary, 60 brands, short texts: what a small policy can learn."""


@dataclass(frozen=True, slots=True)
class FamilySize:
    """How many near-duplicates a family has, both ends included."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "FamilySize":
        """Reads ``3`` or ``2-4``. Raises `EnvironmentDataError`."""
        low, _, high = text.partition("-")
        try:
            return cls(int(low), int(high or low))
        except ValueError:
            raise EnvironmentDataError(f"family size: {text!r} is not a number or a range such as 2-4") from None


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """Everything but count and seed that decides which products come out. Start from `RICH` or `SIMPLE`."""

    style: Style = Style.RICH
    near_duplicates: float = 0.3
    """Share of the products that have near-duplicates: same kind, brand and wording, and exactly one attribute, one
    option value or the price different."""
    family_size: FamilySize = FamilySize(2, 4)
    synthetic_share: float = 0.4
    """Share of the products with a synthetic instruction; each gives a goal for every combination of option values."""
    human_share: float = 0.3
    """Share of the products with an instruction in a person's words; each gives one goal."""
    combinations: int = 12
    """The most combinations of option values that a product has."""
    areas: tuple[str, ...] = AREAS
    """Which of the five areas the shop sells."""

    def __post_init__(self) -> None:
        """Raises `EnvironmentDataError` that names the field, the value and what would be right."""
        if self.style not in tuple(Style):
            raise EnvironmentDataError(f"style: unknown {self.style!r}; there are {', '.join(Style)}")
        for field, share in (
            ("near duplicates", self.near_duplicates),
            ("synthetic share", self.synthetic_share),
            ("human share", self.human_share),
        ):
            if not 0 <= share <= 1:
                raise EnvironmentDataError(f"{field}: {share} is not a share; give a number from 0 to 1")
        if not 2 <= self.family_size.low <= self.family_size.high <= LARGEST_FAMILY:
            size = f"{self.family_size.low}-{self.family_size.high}"
            raise EnvironmentDataError(f"family size: {size} must lie within 2-{LARGEST_FAMILY}")
        if self.combinations < 1:
            raise EnvironmentDataError(f"combinations: {self.combinations} must be at least 1")
        unknown = [area for area in self.areas if area not in AREAS]
        if unknown or not self.areas:
            wrong = f"unknown {', '.join(unknown)}" if unknown else "none given"
            raise EnvironmentDataError(f"areas: {wrong}; there are {', '.join(AREAS)}")

    def to_json(self) -> dict[str, object]:
        """The spec as it is kept beside the products."""
        return {"generator": "gagpo-webshop", "generator_version": GENERATOR_VERSION, **asdict(self)}


RICH = GeneratorSpec()
SIMPLE = GeneratorSpec(style=Style.SIMPLE, near_duplicates=0.5, combinations=10)
PRESETS = {Style.RICH: RICH, Style.SIMPLE: SIMPLE}


def make_spec(
    style: str = Style.RICH,
    *,
    near_duplicates: float | None = None,
    family_size: str | None = None,
    synthetic_share: float | None = None,
    human_share: float | None = None,
    combinations: int | None = None,
    areas: tuple[str, ...] | None = None,
) -> GeneratorSpec:
    """A spec from what a person types: a style's preset with parts of it replaced.

    Raises `EnvironmentDataError` that names the field, the value and what would be right.
    """
    if style not in tuple(Style):
        raise EnvironmentDataError(f"style: unknown {style!r}; there are {', '.join(Style)}")
    preset = PRESETS[Style(style)]
    return replace(
        preset,
        near_duplicates=preset.near_duplicates if near_duplicates is None else near_duplicates,
        family_size=preset.family_size if family_size is None else FamilySize.parse(family_size),
        synthetic_share=preset.synthetic_share if synthetic_share is None else synthetic_share,
        human_share=preset.human_share if human_share is None else human_share,
        combinations=preset.combinations if combinations is None else combinations,
        areas=preset.areas if areas is None else areas,
    )


def check_count(count: int) -> None:
    """Raises `EnvironmentDataError` for a number of products that cannot be made."""
    if not 1 <= count <= LARGEST_CATALOGUE:
        raise EnvironmentDataError(f"products: {count} must be from 1 to {LARGEST_CATALOGUE:,}")
