"""Catalogues of generated products."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.manifest import FILE_NAME, read_manifest
from services.env_server.environments.webshop.generator.generate import generate_products
from services.env_server.environments.webshop.generator.spec import RICH, GeneratorSpec
from services.env_server.environments.webshop.product import Product


class GeneratedSource:
    """The first products of the shop that a seed describes."""

    kind: Literal["generated"] = "generated"
    recorded = None

    def __init__(self, count: int, seed: int, spec: GeneratorSpec = RICH) -> None:
        """``count`` products; equal arguments give the same ones on any machine."""
        self.total = count
        self._count = count
        self._seed = seed
        self._spec = spec

    def products(self) -> Iterator[Product]:
        """All products in order. Raises `EnvironmentDataError` for a count that is not possible."""
        return generate_products(self._count, self._seed, self._spec)

    def provenance(self) -> Mapping[str, str | int]:
        """What decides the content."""
        return {"seed": self._seed, "generator": json.dumps(self._spec.to_json())}


def generate_catalogue(out: Path, count: int, seed: int, spec: GeneratorSpec = RICH) -> None:
    """Generate products and write their catalogue into ``out``.

    Generating the same again into the same folder does nothing; a folder with anything else is never overwritten.
    Raises `EnvironmentDataError`.
    """
    source = GeneratedSource(count, seed, spec)
    if (out / FILE_NAME).exists():
        manifest = read_manifest(out)
        if manifest.products == count and source.provenance().items() <= manifest.provenance.items():
            return
    build_catalogue(source, out, seed=seed)
