"""The official files of WebShop: products, attributes with synthetic instructions, and what people wrote.

- ``items_shuffle*.json``: an array of products as they were scraped; 5 GB for the full set, so it is streamed.
- ``items_ins_v2*.json``: asin → attributes and a synthetic instruction.
- ``items_human_ins.json``: asin → instructions that people wrote; optional.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from pydantic import BaseModel, TypeAdapter

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.data_files import read_checked
from services.env_server.environments.webshop.json_stream import iterate_array, iterate_members
from services.env_server.environments.webshop.official_cleaning import UNKNOWN_ATTRIBUTES, Annotations, Cleaner
from services.env_server.environments.webshop.product import Instruction, Product
from services.env_server.environments.webshop.title_nouns import with_title_nouns
from shared.files import sha256_of

PRODUCTS = "items_shuffle"
ATTRIBUTES = "items_ins_v2"
HUMAN = "items_human_ins"
SUFFIXES = (".json", ".json.xz")


class OfficialFiles(NamedTuple):
    """The files that belong together."""

    products: Path
    attributes: Path
    human: Path | None

    def present(self) -> list[Path]:
        """Those there are."""
        return [path for path in self if path]


class OfficialSource:
    """Products of the official files, cleaned as the original does. Title nouns need the extra ``webshop-build``."""

    kind: Literal["official"] = "official"
    recorded = None
    total = None

    def __init__(self, files: OfficialFiles, processes: int = 1) -> None:
        """``processes`` look for the nouns of titles. Raises `EnvironmentDataError` where a file is missing."""
        for path in files.present():
            if not path.is_file():
                raise EnvironmentDataError(f"{path} does not exist; `gagpo data webshop` downloads the official files")
        self.official = files
        self.files = files.present()
        """Everything that is read."""
        self._processes = processes
        self.notes: Counter[str] = Counter()
        """What was wrong with how many products, in words for people; complete once the products were gone through."""

    def products(self) -> Iterator[Product]:
        """All products in order, with the nouns of their titles. Raises `EnvironmentDataError`."""
        return with_title_nouns(self.cleaned(), self._processes)

    def cleaned(self) -> Iterator[Product]:
        """All products in order, without title nouns."""
        cleaner = Cleaner(AnnotationTable(self.official.attributes, self.official.human))
        self.notes = cleaner.notes
        kept = 0
        for raw in iterate_array(self.official.products):
            if (product := cleaner.clean(raw)) is not None:
                kept += 1
                yield product
        if not kept:
            why = "; ".join(f"{count} {what}" for what, count in self.notes.items()) or "the array is empty"
            raise EnvironmentDataError(
                f"{self.official.products} holds no usable product ({why}): is it the right file?"
            )

    def count(self, limit: int) -> int:
        """How many items the product file has, at most ``limit``."""
        return sum(1 for _ in islice(iterate_array(self.official.products), limit))

    def provenance(self) -> Mapping[str, str | int]:
        """Checksums of the files, and how many products had what trouble."""
        return {f"sha256 of {path.name}": sha256_of(path) for path in self.files} | dict(self.notes)


class AttributeRecord(msgspec.Struct):
    """What ``items_ins_v2*.json`` says of a product."""

    attributes: tuple[str, ...] | None = None
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] | None = None


class HumanRecord(BaseModel):
    """What a person asked for, in ``items_human_ins.json``."""

    instruction: str
    instruction_attributes: tuple[str, ...] = ()
    instruction_options: tuple[str, ...] = ()


_HUMAN_FILE = TypeAdapter(dict[str, list[HumanRecord]])


class AnnotationTable:
    """Attributes and instructions by asin: the large file in a temporary database on disk, the small one in memory."""

    def __init__(self, attributes: Path, human: Path | None) -> None:
        """Read both files. Raises `EnvironmentDataError` that names the file and the asin whose record is damaged."""
        # An empty name is SQLite's for a database on disk that is gone with its connection.
        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE records (asin TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID")
        self._database.executemany("INSERT OR REPLACE INTO records VALUES (?, ?)", _attribute_rows(attributes))
        self._decode = msgspec.msgpack.Decoder(AttributeRecord).decode
        remedy = "it must be one JSON object of asins and lists of instructions"
        self._human = read_checked(human, _HUMAN_FILE, remedy) if human else {}

    def annotations(self, asin: str) -> Annotations:
        """What the files say of a product."""
        row = self._database.execute("SELECT record FROM records WHERE asin = ?", (asin,)).fetchone()
        record = self._decode(row[0]) if row else AttributeRecord()
        synthetic = None
        if record.instruction and record.instruction_attributes:
            synthetic = Instruction(record.instruction, record.instruction_attributes)
        return Annotations(
            attributes=UNKNOWN_ATTRIBUTES if record.attributes is None else record.attributes,
            synthetic=synthetic,
            human=tuple(
                Instruction(one.instruction, one.instruction_attributes, one.instruction_options)
                for one in self._human.get(asin, ())
                if one.instruction_attributes
            ),
        )


def _attribute_rows(path: Path) -> Iterator[tuple[str, bytes]]:
    encode = msgspec.msgpack.Encoder().encode
    for asin, value in iterate_members(path):
        try:
            yield asin, encode(msgspec.convert(value, AttributeRecord))
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise EnvironmentDataError(
                f"{path}: {asin}: {error}; expected attributes, instruction and instruction_attributes"
            ) from error


def find_official(folder: Path, processes: int = 1) -> OfficialSource | None:
    """The official files in a folder, None where it holds no product file.

    Raises `EnvironmentDataError` where the folder holds several product files, or no attributes for them.
    """
    products = _candidates(folder, PRODUCTS)
    if not products:
        return None
    attributes, human = _candidates(folder, ATTRIBUTES), _candidates(folder, HUMAN)
    if len(products) > 1 or len(attributes) > 1:
        names = ", ".join(path.name for path in products + attributes)
        raise EnvironmentDataError(f"{folder} holds several sets ({names}): name one with --products and --attributes")
    if not attributes:
        raise EnvironmentDataError(
            f"{folder} holds {products[0].name} but no {ATTRIBUTES}*.json with the attributes that rewards look for: "
            "`gagpo data webshop` downloads both"
        )
    return OfficialSource(OfficialFiles(products[0], attributes[0], human[0] if human else None), processes)


def _candidates(folder: Path, start: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"{start}*") if path.name.endswith(SUFFIXES))
