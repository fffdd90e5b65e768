"""Observations that are nearly the same, joined into one state: for environments whose texts seldom repeat exactly."""

import re
from collections.abc import Collection

import numpy as np

from services.trainer.algorithms.base import Ints

_WORD = re.compile(r"\w+")
_ROUNDING = 1e-9
"""Distances of equal vectors come out at about 1e-16, and a threshold is met from above."""


def representatives(texts: Collection[str], similarity: float) -> dict[str, str]:
    """For each text, the one that stands for its cluster: the cluster's first in alphabetical order.

    Texts are vectors of their words' TF-IDF weights among ``texts``, compared by cosine. Clusters are merged from the
    nearest on while any two of their texts are at least ``similarity`` alike (complete linkage: no chains of small
    differences). A text without words stays by itself.

    The result depends on the set of texts alone. Time and memory grow with the square of the number of distinct texts.
    """
    ordered = sorted(set(texts))
    worded = [text for text in ordered if _WORD.search(text)]
    found = {text: text for text in ordered}
    if len(worded) > 1:
        first: dict[int, str] = {}
        for text, label in zip(worded, _labels(worded, similarity).tolist(), strict=True):
            found[text] = first.setdefault(label, text)
    return found


def _labels(texts: list[str], similarity: float) -> Ints:
    # Imported here because it takes a second and only a recipe with `similarity` needs it.
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.feature_extraction.text import TfidfVectorizer

    # Its own pattern leaves one-letter words out, so that "drawer 1" and "drawer 2" would be equal.
    vectors = TfidfVectorizer(token_pattern=_WORD.pattern).fit_transform(texts)
    distances = np.clip(1.0 - (vectors @ vectors.T).toarray(), 0.0, 1.0)
    clustering = AgglomerativeClustering(
        n_clusters=None,
        metric="precomputed",
        linkage="complete",
        distance_threshold=1.0 - similarity + _ROUNDING,
    )
    labels: Ints = clustering.fit(distances).labels_
    return labels
