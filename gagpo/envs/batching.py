"""The infos of a vector environment: one dictionary with an array for each key, as gymnasium lays them out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def batched(infos: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """``{key: values, "_key": which of the N have it}``; None for a sub-environment that has nothing to say.

    Values that are all true or false, or all numbers, are an array of those, with 0 where there is none; others are
    an array of objects. Dictionaries are batched in turn, but ``final_obs`` and lists stay as they are.
    """
    keys = dict.fromkeys(key for info in infos if info is not None for key in info)
    found: dict[str, Any] = {}
    for key in keys:
        has = np.array([info is not None and key in info for info in infos])
        values = [info[key] if there and info is not None else None for info, there in zip(infos, has, strict=True)]
        given = [value for value, there in zip(values, has, strict=True) if there]
        if all(isinstance(value, Mapping) for value in given):
            found[key] = batched(values)
        else:
            found[key] = _array(values, given, has)
        found[f"_{key}"] = has
    return found


def _array(values: Sequence[Any], given: Sequence[Any], has: NDArray[np.bool_]) -> NDArray[Any]:
    kinds = {type(value) for value in given}
    kind = kinds.pop() if len(kinds) == 1 else float if kinds == {int, float} else object
    array = np.zeros(len(values), kind) if kind in (bool, int, float) else np.full(len(values), None, object)
    for place in np.flatnonzero(has):
        array[place] = values[place]
    return array
