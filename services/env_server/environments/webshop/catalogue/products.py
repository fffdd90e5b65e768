"""Products in a record file, as msgpack."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec
import zstandard

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.layout import PRODUCTS
from services.env_server.environments.webshop.catalogue.records import RecordFile
from services.env_server.environments.webshop.product import Product

KEPT = 4_096
"""Products that a process remembers, about 5 KB each: those of the results that a training step's groups look at."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Product).decode


class ProductFile:
    """All products of a catalogue, in its order; one read from disk takes about 15 µs."""

    def __init__(self, folder: Path) -> None:
        """Open the products of the catalogue in ``folder``. Raises OSError where its files are missing."""
        self._folder = folder
        self._records = RecordFile(folder, PRODUCTS)
        self.product = lru_cache(KEPT)(self._read)
        """A product by its number; remembers those used lately."""

    def __len__(self) -> int:
        """Number of products."""
        return len(self._records)

    def __iter__(self) -> Iterator[Product]:
        """All products in order, remembering none."""
        return map(self._read, range(len(self)))

    def _read(self, number: int) -> Product:
        try:
            return decode(self._records[number])
        except (zstandard.ZstdError, msgspec.DecodeError) as error:
            raise EnvironmentDataError(
                f"{self._folder}: product {number} is damaged ({error}); `gagpo data info webshop {self._folder} "
                "--verify` says which files are"
            ) from error
