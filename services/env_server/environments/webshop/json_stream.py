"""Goes through a JSON file of any size item by item, in bounded memory.

The standard library's decoder does the parsing, as in the original: it takes the bare ``NaN`` that Python's own writer
makes and that ijson refuses, and it is as fast as ijson's C backend (250 MB/s both).
"""

import json
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from tqdm import tqdm

from services.env_server.environments.base import EnvironmentDataError

CHUNK = 1 << 20
"""Characters that are read at once."""
LARGEST_ITEM = 32 << 20
"""Characters after which an item that still does not parse is damaged rather than unfinished."""

Item = TypeVar("Item")


def iterate_array(path: Path) -> Iterator[object]:
    """The items of the array that a file (``.json`` or ``.json.xz``) holds. Raises `EnvironmentDataError`."""
    with _opened(path) as text:
        text.expect("[")
        yield from _separated(text, "]", text.value)


def iterate_members(path: Path) -> Iterator[tuple[str, object]]:
    """The names and values of the object that a file holds, in its order. Raises `EnvironmentDataError`."""
    with _opened(path) as text:
        text.expect("{")
        yield from _separated(text, "}", text.member)


class _Text:
    """A file's text from the item being read on."""

    def __init__(self, path: Path, file: IO[str], bar: "tqdm[NoReturn]") -> None:
        self._path = path
        self._file = file
        self._bar = bar
        self._text = ""
        self._next = 0
        """Place of the next character in ``_text``."""
        self._decode = json.JSONDecoder().raw_decode
        self.items = 0
        """Read so far, for messages."""

    def peek(self) -> str:
        """The next character that is not white space, empty at the end."""
        while True:
            while self._next < len(self._text):
                if not (character := self._text[self._next]).isspace():
                    return character
                self._next += 1
            if not self._read_on():
                return ""

    def expect(self, character: str) -> None:
        """Go past a character. Raises `EnvironmentDataError` where another comes."""
        if (found := self.peek()) != character:
            self.fail(f"{found!r} stands where {character!r} belongs" if found else "it ends too early")
        self._next += 1

    def value(self) -> object:
        """Read the value that comes next."""
        if not self.peek():
            self.fail("it ends too early")
        while True:
            try:
                value, end = self._decode(self._text, self._next)
            except json.JSONDecodeError as error:
                if len(self._text) - self._next > LARGEST_ITEM or not self._read_on():
                    self.fail(error.msg)
                continue
            # What ends with the window may go on after it.
            if end < len(self._text) or not self._read_on():
                self._next = end
                return value

    def member(self) -> tuple[str, object]:
        """Read the name and value that come next."""
        name = self.value()
        if not isinstance(name, str):
            self.fail(f"{name!r:.40} stands where a name belongs")
        self.expect(":")
        return name, self.value()

    def fail(self, why: str) -> NoReturn:
        """Say where the file is damaged."""
        near = self._text[self._next : self._next + 40]
        raise EnvironmentDataError(
            f"{self._path} is not whole, valid JSON: after {self.items:,} items, {why}"
            f"{f' (near {near!r})' if near else ''}; fetch the file again"
        )

    def _read_on(self) -> bool:
        """Move the window on; False at the end of the file."""
        try:
            chunk = self._file.read(CHUNK)
        except (UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
            self.fail(str(error))
        self._bar.update(len(chunk))
        self._text = self._text[self._next :] + chunk
        self._next = 0
        return bool(chunk)


def _separated(text: _Text, closing: str, read: Callable[[], Item]) -> Iterator[Item]:
    """Items with commas between them, up to the closing bracket, after which nothing may come."""
    while text.peek() != closing:
        if text.items:
            text.expect(",")
        item = read()
        text.items += 1
        yield item
    text.expect(closing)
    if text.peek():
        text.fail("something follows the end")


@contextmanager
def _opened(path: Path) -> Iterator[_Text]:
    try:
        with (
            (
                lzma.open(path, "rt", encoding="utf-8-sig") if path.suffix == ".xz" else path.open(encoding="utf-8-sig")
            ) as file,
            tqdm(desc=path.name, unit=" characters", unit_scale=True, delay=5, leave=False) as bar,
        ):
            yield _Text(path, file, bar)
    except OSError as error:
        raise EnvironmentDataError(f"{path} cannot be read ({error}); copy or download it again") from error
