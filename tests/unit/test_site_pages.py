"""The pieces that the documentation site's own pages are made of."""

from enum import StrEnum
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.openapi.models import OpenAPI
from markdown import Markdown
from pydantic import BaseModel, ConfigDict, Field
from pymdownx.superfences import SuperFencesException

from site_pages.markdown import code, fenced, one_line
from site_pages.mathematics import math_fence
from site_pages.openapi import openapi_page
from site_pages.repository import Repository
from site_pages.schemas import fields_table, model_schema


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """What is inside."""

    depth: int = 1


class Outer(BaseModel):
    """A model with a field of each kind."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str = Field(pattern="^(a|b)$")
    """Either a | b."""
    share: float = Field(default=0.5, gt=0, le=1)
    colour: Colour = Colour.RED
    limit: int | None = Field(default=None, ge=1000)
    inner: Inner = Inner()
    many: list[Inner] = Field(default_factory=list)


def test_a_field_is_a_row_with_its_type_its_bounds_and_its_default() -> None:
    schema, definitions = model_schema(Outer)
    rows = fields_table(schema, definitions, lambda name: f"[{name}](#{name})", anchor="outer").splitlines()[2:]
    assert rows == [
        r"| `name`{ #outer.name } | string like `^(a|b)$` | *required* | Either a \| b. |",
        "| `share`{ #outer.share } | number > 0, ≤ 1 | `0.5` |  |",
        '| `colour`{ #outer.colour } | `"red"`, `"blue"` | `"red"` |  |',
        "| `limit`{ #outer.limit } | integer ≥ 1,000 | unset |  |",
        "| `inner`{ #outer.inner } | [Inner](#Inner) | its own defaults | What is inside. |",
        "| `many`{ #outer.many } | list of [Inner](#Inner) | `[]` |  |",
    ]


def test_an_operation_says_what_it_takes_and_what_it_answers() -> None:
    app = FastAPI()

    @app.post("/v1/things/{thing}", tags=["things"])
    async def change(thing: str, body: Outer, limit: int = 10) -> Inner:
        """Change a thing.

        Nothing else.
        """
        return Inner()

    page = openapi_page("Things", "", OpenAPI.model_validate(app.openapi()))
    assert "| [`POST /v1/things/{thing}`](#post-v1-things-thing) | Change a thing. |" in page
    assert "### `POST /v1/things/{thing}` { #post-v1-things-thing }\n\nChange a thing.\n\nNothing else." in page
    assert "| `limit` | query | integer | `10` |  |" in page
    assert "Body: [Outer](#message-outer) as `application/json`." in page
    assert "| 200 | Successful Response | [Inner](#message-inner) as `application/json` |" in page
    assert "### Inner { #message-inner }" in page


def test_text_in_a_cell_neither_ends_it_nor_opens_a_tag() -> None:
    assert one_line("a | b,\n  <c> and `d | <e>`") == r"a \| b, &lt;c> and `d | <e>`"
    assert code("a ` b") == "`` a ` b ``"
    assert fenced("```\ncode\n```", "text").splitlines()[0] == "````text"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    for path, text in {
        "README.md": "# It",
        "docs/page.md": "# Page",
        "docs/runs/one/metrics.csv": "step",
        "configs/a.toml": "a = 1",
        "deploy/README.md": "# Deploy",
        "shared/recipe/model.py": "",
        "examples/book.ipynb": '{"cells": [{"cell_type": "markdown", "source": ["# Book\\n", "text"]}, '
        '{"cell_type": "code", "source": ["a = 1"]}]}',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Repository(tmp_path, frozenset({"reference/recipe.md"}))


@pytest.mark.parametrize(
    ("uri", "link", "on_the_site"),
    [
        ("index.md", "docs/page.md#part", "page.md#part"),
        ("page.md", "../README.md", "index.md"),
        ("page.md", "../configs/a.toml", "repository/configs/a.toml.md"),
        ("page.md", "../deploy", "repository/deploy/README.md"),
        ("page.md", "../shared/recipe/model.py", "reference/recipe.md"),
        ("page.md", "runs/one", "runs/one/index.md"),
        ("repository/deploy/README.md", "../docs/page.md", "../../page.md"),
        ("reference/recipe.md", "../../configs/a.toml", "../repository/configs/a.toml.md"),
        ("page.md", "gone.md", "gone.md"),
        ("page.md", "../../elsewhere.md", "../../elsewhere.md"),
        ("page.md", "https://example.org/docs/page.md", "https://example.org/docs/page.md"),
    ],
)
def test_a_link_into_the_repository_leads_to_the_page_that_shows_it(
    repository: Repository, uri: str, link: str, on_the_site: str
) -> None:
    assert repository.relinked(uri, f"See [it]({link}).") == f"See [it]({on_the_site})."


def test_what_looks_like_a_link_in_code_stays_as_it_is(repository: Repository) -> None:
    text = "`[it](docs/page.md)`\n\n```\n[it](docs/page.md)\n```\n"
    assert repository.relinked("index.md", text) == text


def test_files_and_folders_have_pages(repository: Repository) -> None:
    assert "a = 1" in repository.shown("configs/a.toml")
    assert "[metrics.csv](metrics.csv)" in repository.shown("docs/runs/one")
    assert repository.shown("examples/book.ipynb") == "# Book\ntext\n\n```python\na = 1\n```\n"


@pytest.mark.parametrize("source", ["a_b_c", r"\nosuchcommand{a}", r"\begin{aligned} a &= b \\ c &= d \end{aligned}"])
def test_latex_that_cannot_be_shown_stops_the_build(source: str) -> None:
    with pytest.raises(SuperFencesException, match=r"can.* be shown"):
        math_fence(source, "math", "math", {}, Markdown())
