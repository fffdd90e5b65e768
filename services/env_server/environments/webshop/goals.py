"""Goals in their order, made on demand: no list of them is in memory, however many there are.

A table is a folder of memory-mapped files that processes share, in one of two forms:

- **drawn** goals are numbers: which instruction of which product, which combination of its option values, at most what
  price. Their texts are put together from the product when they are asked for.
- **recorded** goals, from a ``goals.json``, are records of their own, and so exactly what that file says.

`goal_building` writes both.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

import msgspec

from services.env_server.environments.webshop.catalogue.mapping import map_numbers, write_numbers
from services.env_server.environments.webshop.catalogue.records import RecordFile
from services.env_server.environments.webshop.goal import Goal, GoalKind, GoalTable
from services.env_server.environments.webshop.prices import cap_text
from services.env_server.environments.webshop.product import Product

ProductByNumber = Callable[[int], Product]

CUMULATIVE = "cumulative"
"""float64, (goals + 1,): the weights of the goals before each one, in the shuffled order, summed."""
RECORDS = "goals"
"""Name of the record file of recorded goals."""


@dataclass(frozen=True, slots=True)
class DrawnNumbers:
    """Drawn goals as numbers. A base is one instruction of one product; its goals are neighbours before the shuffle."""

    product: Sequence[int]
    """(bases,) number of the product."""
    instruction: Sequence[int]
    """(bases,) which of the product's human instructions; 0 for synthetic goals."""
    first: Sequence[int]
    """(bases,) how many goals come before those of this base, before the shuffle."""
    cap: Sequence[float]
    """(bases,) highest price that counts, in dollars."""
    weight: Sequence[float]
    """(bases,) weight in draws of each of its goals."""
    order: Sequence[int]
    """(goals,) place in the shuffled order → place before the shuffle."""

    def save(self, folder: Path) -> None:
        """Write one file each into a folder."""
        for name in ("product", "instruction", "first", "order"):
            write_numbers(folder / name, getattr(self, name), "i")
        for name in ("cap", "weight"):
            write_numbers(folder / name, getattr(self, name), "d")

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the files of a folder. Raises OSError where they are missing."""
        return cls(
            product=_mapped(folder / "product", "i"),
            instruction=_mapped(folder / "instruction", "i"),
            first=_mapped(folder / "first", "i"),
            cap=_mapped(folder / "cap", "d"),
            weight=_mapped(folder / "weight", "d"),
            order=_mapped(folder / "order", "i"),
        )


def _mapped(path: Path, code: Literal["i", "d"]) -> "memoryview[Any]":
    return map_numbers(path, code) if path.stat().st_size else memoryview(b"").cast(code)


class RecordedGoal(msgspec.Struct, frozen=True, array_like=True):
    """One goal of a ``goals.json``, beside the number of its product."""

    product: int
    instruction: str
    attributes: tuple[str, ...]
    options: dict[str, str] | tuple[str, ...]
    price_upper: float
    query: str
    category: str
    product_category: str
    title: str
    weight: float


class _Weighted:
    """A table of goals that have weights in draws."""

    def __init__(self, folder: Path) -> None:
        self._cumulative: Sequence[float] = map_numbers(folder / CUMULATIVE, "d")

    def __len__(self) -> int:
        """How many there are."""
        return len(self._cumulative) - 1

    def draw(self, random: Random, among: range | None = None, *, mended: bool = False) -> int:
        """The index of a goal drawn by weight, from all goals or ``among`` neighbours, off by one as in the original.

        By accident there, the sums of weights are searched as if they did not begin with 0. So the first goal never
        comes, each other one comes with the weight of the goal before it, and the last one with its own weight besides.
        When ``mended``, each comes with its own weight. Raises IndexError where there are no goals.
        """
        if not len(self):
            raise IndexError("there is no goal to draw")
        among = range(len(self)) if among is None else among
        sums, shift = self._cumulative, 0 if mended else 1
        low = sums[max(among.start - shift, 0)]
        high = sums[among.stop if among.stop == len(self) else among.stop - shift]
        point = low + random.random() * (high - low)
        return min(max(bisect_right(sums, point) - 1 + shift, among.start), among.stop - 1)

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no goal {index}; there are {len(self)}")


class DrawnGoals(_Weighted):
    """Goals that are made from their products."""

    def __init__(self, folder: Path, kind: GoalKind, product: ProductByNumber) -> None:
        """Open the files in ``folder``. Raises OSError where they are missing."""
        super().__init__(folder)
        self._kind = kind
        self._product = product
        self._numbers = DrawnNumbers.open(folder)

    def goal(self, index: int) -> Goal:
        """One goal. Raises IndexError beyond the ends (negative indices too)."""
        self._check(index)
        place, numbers = self._numbers.order[index], self._numbers
        base = bisect_right(numbers.first, place) - 1
        product = self._product(numbers.product[base])
        options: Mapping[str, str] | tuple[str, ...]
        if self._kind is GoalKind.HUMAN:
            wanted = product.human[numbers.instruction[base]]
            options, text = wanted.options, wanted.text.strip(".")
        else:
            assert product.synthetic is not None  # it has a base
            wanted = product.synthetic
            options = combination(product.options, place - numbers.first[base])
            text = _with_options(wanted.text, options)
        return Goal(
            kind=self._kind,
            index=index,
            asin=product.asin,
            instruction=text + cap_text(numbers.cap[base]),
            attributes=wanted.attributes,
            options=options,
            price_upper=numbers.cap[base],
            query=product.query,
            category=product.category,
            product_category=product.product_category,
            title=product.title,
            title_nouns=product.title_nouns,
            weight=numbers.weight[base],
        )


class RecordedGoals(_Weighted):
    """Goals that are what a file says."""

    def __init__(self, folder: Path, kind: GoalKind, product: ProductByNumber) -> None:
        """Open the files in ``folder``. Raises OSError where they are missing."""
        super().__init__(folder)
        self._kind = kind
        self._product = product
        self._records = RecordFile(folder, RECORDS)
        self._decode = msgspec.msgpack.Decoder(RecordedGoal).decode

    def goal(self, index: int) -> Goal:
        """One goal. Raises IndexError beyond the ends (negative indices too)."""
        self._check(index)
        record = self._decode(self._records[index])
        product = self._product(record.product)
        return Goal(
            kind=self._kind,
            index=index,
            asin=product.asin,
            instruction=record.instruction,
            attributes=record.attributes,
            options=record.options,
            price_upper=record.price_upper,
            query=record.query,
            category=record.category,
            product_category=record.product_category,
            title=record.title,
            title_nouns=product.title_nouns,
            weight=record.weight,
        )


def open_goal_table(folder: Path, kind: GoalKind, product: ProductByNumber) -> GoalTable:
    """The goals of a kind that `goal_building` wrote into ``folder``; ``product`` finds a product by its number.

    Raises OSError where files are missing.
    """
    own = folder / kind
    if (own / f"{RECORDS}.records").exists():
        return RecordedGoals(own, kind, product)
    return DrawnGoals(own, kind, product)


def combinations(options: Mapping[str, Sequence[str]]) -> int:
    """How many ways there are to choose one value of every option."""
    return prod(map(len, options.values()))


def combination(options: Mapping[str, Sequence[str]], number: int) -> dict[str, str]:
    """One way to choose a value of every option: names sorted, the last one's values change fastest."""
    chosen: list[tuple[str, str]] = []
    for name in sorted(options, reverse=True):
        number, place = divmod(number, len(options[name]))
        chosen.append((name, options[name][place]))
    return dict(reversed(chosen))


def _with_options(text: str, options: Mapping[str, str]) -> str:
    wishes = ", and ".join(f"{name}: {value}" for name, value in options.items())
    return f"{text} with {wishes}" if wishes else text
