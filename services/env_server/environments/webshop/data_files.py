"""Reading the JSON files of a data folder, plain or xz-compressed, into checked values."""

import lzma
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from services.env_server.environments.base import EnvironmentDataError

Value = TypeVar("Value")


def read_checked(path: Path, adapter: TypeAdapter[Value], remedy: str) -> Value:
    """The content of ``path`` (``.json`` or ``.json.xz``) as ``adapter`` checks it.

    Raises `EnvironmentDataError` that names the file, the field, its value and, as ``remedy``, what should be there.
    """
    try:
        return adapter.validate_json(_content(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "the whole file"
        raise EnvironmentDataError(
            f"{path}: {field}: {first['msg']} (found {_shortened(first['input'])}); {remedy}"
        ) from None


def _content(path: Path) -> bytes:
    try:
        if path.suffix != ".xz":
            return path.read_bytes()
        with lzma.open(path) as file:
            return file.read()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise EnvironmentDataError(f"{path} cannot be read ({error}); copy or download it again") from error


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
