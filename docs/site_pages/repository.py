"""Files of the repository on the site: what pages link to outside `docs/`, and folders, each as a page of its own."""

import json
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from site_pages.markdown import code, fenced, page, table

README = "README.md"
OUTSIDE = "repository"
"""Folder of the site that files from outside `docs/` go to."""

_LANGUAGES = {".toml": "toml", ".py": "python", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".sh": "bash"}
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?(?P<after>\))")
_CODE = re.compile(r"^ *(`{3,}).*?^ *\1 *$|`+[^`\n]+`+", re.MULTILINE | re.DOTALL)

MADE_FROM = {
    "shared/recipe/model.py": "reference/recipe.md",
    "services/env_server/settings.py": "reference/settings.md",
    "services/policy_server/settings.py": "reference/settings.md",
    "services/orchestrator/settings.py": "reference/settings.md",
    "services/trainer/server/settings.py": "reference/settings.md",
    "gagpo/cli.py": "reference/cli.md",
}
"""Sources that pages link to, and the pages of the site that are made from them."""


class Cell(TypedDict):
    """A cell of a Jupyter notebook, as far as it is shown."""

    cell_type: str
    source: list[str]


class Notebook(TypedDict):
    """A Jupyter notebook's file."""

    cells: list[Cell]


@dataclass(frozen=True)
class Repository:
    """Where pages and their links point to. Paths are POSIX paths, relative to the repository or to the site."""

    root: Path
    references: frozenset[str]
    """Pages that are made from the code: paths on the site."""

    def source(self, uri: str) -> str:
        """The file in the repository that a page of the site is made from."""
        if uri == "index.md":
            return README
        if uri.startswith(f"{OUTSIDE}/"):
            path = uri.removeprefix(f"{OUTSIDE}/")
            return path if (self.root / path).is_file() else path.removesuffix(".md")
        listed = posixpath.join("docs", posixpath.dirname(uri))
        if posixpath.basename(uri) == "index.md" and not (self.root / "docs" / uri).exists():
            return posixpath.join(listed, "folder")  # any name will do: links are relative to where it is
        return posixpath.join("docs", uri)

    def place(self, path: str) -> str | None:
        """The page of the site that shows a file or folder of the repository; None where there is no such thing."""
        if path in MADE_FROM:
            return MADE_FROM[path]
        if path == README:
            return "index.md"
        inside = path.removeprefix("docs/") if path.startswith("docs/") else None
        if inside in self.references:
            return inside
        found = self.root / path
        if found.is_dir():
            readme = posixpath.join(path, README)
            if (self.root / readme).is_file():
                return self.place(readme)
            return f"{inside}/index.md" if inside else None
        if inside is not None:
            return inside if found.is_file() else None
        if not found.is_file():
            return None
        return f"{OUTSIDE}/{path}" if path.endswith(".md") else f"{OUTSIDE}/{path}.md"

    def linked(self, uri: str, text: str) -> list[str]:
        """What a page links to in the repository: paths."""
        return [path for found in _links(text) if (path := self._target(uri, found)) is not None]

    def relinked(self, uri: str, text: str) -> str:
        """The page with every link to the repository made one to the site; other links stay as they are."""

        def changed(found: re.Match[str]) -> str:
            path = self._target(uri, found)
            place = self.place(path) if path is not None else None
            if place is None:
                return found.group()
            target = posixpath.relpath(place, posixpath.dirname(uri) or ".")
            return f"{found['before']}{target}{found['anchor'] or ''}{found['after']}"

        at, parts = 0, []
        for found in _links(text):
            parts += [text[at : found.start()], changed(found)]
            at = found.end()
        return "".join([*parts, text[at:]])

    def shown(self, path: str) -> str:
        """The page of a file or a folder that has none of its own."""
        found = self.root / path
        if found.is_dir():
            inside = sorted(one for one in found.iterdir() if not one.name.startswith("."))
            rows = [(f"[{one.name}]({one.name})", "folder" if one.is_dir() else f"{_size(one)}") for one in inside]
            return page(code(path), table(("name", "size"), rows))
        text = found.read_text(encoding="utf-8")
        if path.endswith(".md"):
            return text
        if path.endswith(".ipynb"):
            return _notebook(json.loads(text))
        return page(code(path), fenced(text, _LANGUAGES.get(found.suffix, "text")))

    def _target(self, uri: str, found: re.Match[str]) -> str | None:
        """The repository path that a link means; None for another host's, and for one that leaves the repository."""
        target = found["target"]
        if ":" in target or target.startswith("/"):
            return None
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.source(uri)), target))
        return None if path.startswith("..") else path


def _links(text: str) -> list[re.Match[str]]:
    """The links of a page, but not what looks like one in code."""
    blocks = [(one.start(), one.end()) for one in _CODE.finditer(text)]
    return [one for one in _LINK.finditer(text) if not any(start <= one.start() < end for start, end in blocks)]


def _notebook(document: Notebook) -> str:
    """A notebook's texts and code, one after the other; what it printed is left out."""
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in document["cells"]]
    return "\n\n".join(text if kind == "markdown" else fenced(text, "python") for text, kind in cells)


def _size(path: Path) -> str:
    return f"{path.stat().st_size:,} bytes"
