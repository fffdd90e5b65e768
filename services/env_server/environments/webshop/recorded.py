"""A recorded shop: products as lines of JSON, with the prices and goals of the recording where there are any.

``products*.jsonl`` or ``.jsonl.xz``; a line is what the original makes of a product (see `official_cleaning`), with
the nouns of its title, so that no language model is needed. ``prices.json`` and ``goals.json`` (or ``.json.xz``) beside
it are used as they are.
"""

import lzma
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Literal

import msgspec

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.product import Instruction, Product
from services.env_server.environments.webshop.source import RecordedWorld
from shared.files import sha256_of

PATTERNS = ("products*.jsonl.xz", "products*.jsonl")


class RecordedInstruction(msgspec.Struct):
    """What a person asked for."""

    instruction: str
    instruction_attributes: list[str]
    instruction_options: list[str]


class RecordedProduct(msgspec.Struct):
    """One line of the file."""

    asin: str
    category: str
    query: str
    product_category: str
    name: str
    description: str
    bullets: tuple[str, ...]
    pricing: tuple[float, ...]
    price_tag: str
    options: dict[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    rating: str
    main_image: str
    title_nouns: tuple[str, ...]
    instruction: str | None = None
    instruction_attributes: list[str] = []
    human_instructions: list[RecordedInstruction] = []

    def product(self) -> Product:
        """The same as the shop knows it."""
        synthetic = None
        if self.instruction and self.instruction_attributes:
            synthetic = Instruction(self.instruction, tuple(self.instruction_attributes))
        return Product(
            asin=self.asin,
            category=self.category,
            query=self.query,
            product_category=self.product_category,
            title=self.name,
            description=self.description,
            bullets=self.bullets,
            pricing=self.pricing,
            price_tag=self.price_tag,
            options=self.options,
            attributes=self.attributes,
            rating=self.rating,
            main_image=self.main_image,
            title_nouns=self.title_nouns,
            synthetic=synthetic,
            human=tuple(
                Instruction(human.instruction, tuple(human.instruction_attributes), tuple(human.instruction_options))
                for human in self.human_instructions
                if human.instruction_attributes
            ),
        )


class RecordedSource:
    """A folder with a recorded shop, or its product file."""

    kind: Literal["recorded"] = "recorded"
    total = None

    def __init__(self, file: Path) -> None:
        """``file`` is the product file; prices and goals are looked for beside it."""
        self.file = file
        goals = [path for name in ("goals.json", "goals.json.xz") if (path := file.parent / name).is_file()]
        prices = file.parent / "prices.json"
        self.recorded = RecordedWorld(prices, goals[0]) if goals and prices.is_file() else None

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything that is read."""
        return (self.file, self.recorded.prices, self.recorded.goals) if self.recorded else (self.file,)

    def products(self) -> Iterator[Product]:
        """All products in order. Raises `EnvironmentDataError` that names the line which is damaged."""
        decoder = msgspec.json.Decoder(RecordedProduct)
        whole = 0
        try:
            with self._lines() as lines:
                for line in lines:
                    yield decoder.decode(line).product()
                    whole += 1
        except (msgspec.MsgspecError, lzma.LZMAError, EOFError) as error:
            raise EnvironmentDataError(f"{self.file}, line {whole + 1}: {error}; fetch the file again") from error

    def count(self, limit: int) -> int:
        """How many products there are, at most ``limit``."""
        with self._lines() as lines:
            return sum(1 for _ in islice(lines, limit))

    def provenance(self) -> Mapping[str, str | int]:
        """Checksums of the files."""
        return {f"sha256 of {file.name}": sha256_of(file) for file in self.files}

    def _lines(self) -> IO[bytes]:
        return lzma.open(self.file) if self.file.suffix == ".xz" else self.file.open("rb")


def find_recorded(folder: Path) -> RecordedSource | None:
    """The recorded shop in a folder, None where there is none. Raises `EnvironmentDataError` for several."""
    files = [file for pattern in PATTERNS for file in sorted(folder.glob(pattern))]
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise EnvironmentDataError(f"{folder} holds several product files ({names}): name the one that is meant")
    return RecordedSource(files[0]) if files else None
