"""The numbers in a record of metrics."""

from collections.abc import Mapping

from pydantic import JsonValue


def scalars(record: Mapping[str, JsonValue]) -> dict[str, float]:
    """The numbers of a record, nested ones as ``name/key``. Whole numbers stay whole; what is no number is left out."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= {f"{name}/{key}": number for key, number in scalars(value).items()}
        elif isinstance(value, int | float):
            found[name] = value
    return found
