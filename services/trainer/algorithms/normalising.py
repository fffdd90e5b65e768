"""Numbers compared with the others of their scope: a group's episodes, the steps of a state, a whole batch.

``scope`` numbers from 0 which entries belong together. ``magnitude`` is the size of what an entry was computed from,
for telling a difference from rounding.
"""

import numpy as np

from services.trainer.algorithms.base import Floats, Ints

_ROUNDING = 1e-12
"""Differences below this share of the scope's largest magnitude are rounding; dividing by their spread would amplify
them."""


def normalised(values: Floats, scope: Ints, magnitude: Floats, floor: Floats | None) -> Floats:
    """``(x − mean) / max(std, floor)`` in each scope; ``x − mean`` where ``floor`` is None. All shapes (n,).

    A scope's floor is its entries' largest. Where nothing but rounding differs, the result is exactly 0.
    """
    centred = without_rounding(values - scope_means(values, scope)[scope], scope, magnitude)
    if floor is None:
        return centred
    std = np.sqrt(scope_means(centred**2, scope))
    divisor = np.maximum(std, _largest(floor, scope))[scope]
    found: Floats = np.divide(centred, divisor, out=np.zeros_like(centred), where=divisor > 0)
    return found


def without_rounding(differences: Floats, scope: Ints, magnitude: Floats) -> Floats:
    """The differences, exactly 0 where they are no more than rounding. Shape (n,)."""
    smallest = _ROUNDING * _largest(magnitude, scope)[scope]
    return np.where(np.abs(differences) > smallest, differences, 0.0)


def scope_means(values: Floats, scope: Ints) -> Floats:
    """Mean of each scope, by its number."""
    found: Floats = np.bincount(scope, values) / np.maximum(np.bincount(scope), 1)
    return found


def _largest(sizes: Floats, scope: Ints) -> Floats:
    found = np.zeros(int(scope.max(initial=-1)) + 1)
    np.maximum.at(found, scope, sizes)
    return found
