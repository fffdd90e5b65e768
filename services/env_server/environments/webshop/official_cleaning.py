"""What the original makes of one product of the official files, and what becomes of products that it would choke on."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from services.env_server.environments.webshop.product import Instruction, Product

LONGEST_ASIN = 10
UNLISTED = (100.0,)
"""The listed price of a product without one."""
NO_RATING = "N.A."
"""The original knows no ratings: the official files' reviews are left out."""
UNKNOWN_ATTRIBUTES = ("DUMMY_ATTR",)
"""The attributes of a product that the attributes file does not know."""


class Annotations(NamedTuple):
    """What the other two official files say of a product."""

    attributes: tuple[str, ...]
    synthetic: Instruction | None
    human: tuple[Instruction, ...]


class AnnotationSource(Protocol):
    """The other two official files."""

    def annotations(self, asin: str) -> Annotations:
        """What they say of a product."""
        ...


class Cleaner:
    """Cleans products one after the other and counts what was wrong with them."""

    def __init__(self, annotations: AnnotationSource) -> None:
        """``annotations`` is asked for every product that is kept."""
        self._annotations = annotations
        self._seen: set[str] = set()
        self.notes: Counter[str] = Counter()
        """How often each kind of trouble was met, in words for people."""

    def clean(self, raw: object) -> Product | None:
        """The product of one item of ``items_shuffle*.json``; None for one that is left out, which `notes` counts."""
        if not isinstance(raw, dict):
            self.notes["left out: not a JSON object"] += 1
            return None
        if (why := self._unusable(raw.get("asin"), raw.get("name"))) is not None:
            self.notes[f"left out: {why}"] += 1
            return None
        return self._product(raw)

    def _unusable(self, asin: object, name: object) -> str | None:
        if not isinstance(asin, str) or not asin or not asin.isascii() or asin not in ("nan", asin.upper()):
            return "without a usable asin"
        if asin == "nan" or len(asin) > LONGEST_ASIN:
            return f"asin is nan or has more than {LONGEST_ASIN} characters"
        if asin in self._seen:
            return "asin repeated; the first product was kept"
        self._seen.add(asin)
        return None if isinstance(name, str) else "without a name"

    def _product(self, raw: Mapping[str, object]) -> Product:
        asin = self._text(raw, "asin")
        pricing = self._pricing(raw.get("pricing"))
        attributes, synthetic, human = self._annotations.annotations(asin)
        return Product(
            asin=asin,
            category=self._text(raw, "category"),
            query=self._text(raw, "query").lower().strip(),
            product_category=self._text(raw, "product_category"),
            title=self._text(raw, "name"),
            description=self._text(raw, "full_description"),
            bullets=self._bullets(raw.get("small_description")),
            pricing=pricing,
            price_tag=price_tag(pricing),
            options=self._options(raw.get("customization_options")),
            attributes=attributes,
            rating=NO_RATING,
            main_image=self._main_image(raw.get("images")),
            title_nouns=(),
            synthetic=synthetic,
            human=human,
        )

    def _text(self, raw: Mapping[str, object], field: str) -> str:
        value = raw.get(field)
        if isinstance(value, str):
            return well_formed(value)
        self.notes[f"kept without {field}"] += 1
        return ""

    def _bullets(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return (well_formed(value),)
        if isinstance(value, list) and all(isinstance(bullet, str) for bullet in value):
            return tuple(map(well_formed, value))
        self.notes["kept without small_description"] += 1
        return ()

    def _pricing(self, value: object) -> tuple[float, ...]:
        if not value:
            return UNLISTED
        pricing = parse_pricing(value) if isinstance(value, str) else None
        if pricing is None:
            self.notes[f"kept with a price of {UNLISTED[0]} because pricing is not like $1.23 or $1.23$4.56"] += 1
            return UNLISTED
        return pricing

    def _options(self, value: object) -> dict[str, tuple[str, ...]]:
        options: dict[str, tuple[str, ...]] = {}
        if not value:
            return options
        if not isinstance(value, dict):
            self.notes["kept without options because customization_options is not a JSON object"] += 1
            return options
        for name, contents in value.items():
            if contents is None:
                continue
            if (values := _option_values(contents)) is None:
                self.notes["kept without an option whose values are not texts"] += 1
            else:
                options[well_formed(name).lower()] = values
        return options

    def _main_image(self, value: object) -> str:
        if isinstance(value, list) and value and isinstance(value[0], str):
            return well_formed(value[0])
        self.notes["kept without an image"] += 1
        return ""


def parse_pricing(text: str) -> tuple[float, ...] | None:
    """The one or two prices of a text such as ``$1,234.50`` or ``$10.00$20.00``; None where it holds no such thing.

    What stands before the first ``$`` and after the second price does not count.
    """
    parts = text.split("$")[1:3]
    try:
        return tuple(float(re.sub(r"[^\d.]", "", part)) for part in parts) or None
    except ValueError:
        return None


def price_tag(pricing: tuple[float, ...]) -> str:
    """What pages show of a listed price or range."""
    return " to ".join(f"${price}" for price in pricing)


def _option_values(contents: object) -> tuple[str, ...] | None:
    if not isinstance(contents, list):
        return None
    values = [content.get("value") if isinstance(content, dict) else None for content in contents]
    if not all(isinstance(value, str) for value in values):
        return None
    return tuple(well_formed(value).strip().replace("/", " | ").lower() for value in values if isinstance(value, str))


def well_formed(text: str) -> str:
    """The text with half surrogate pairs, which JSON escapes can make and nothing can store, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
