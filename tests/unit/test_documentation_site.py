"""The documentation site builds without a warning, has every page in reach, and needs no other host.

MkDocs' strict mode checks most of it: a page that is not in the navigation, a link or an anchor that leads nowhere.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser import start_chromium, watched_page

ROOT = Path(__file__).parents[2]
LOADING = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}

SHOWN = {
    "light": ("index.html", "gagpo.html", "rest-api.html", "python/recipes.html"),
    "dark": ("rest-api.html", "python/recipes.html"),
}
"""Pages of each kind: prose and pictures, equations, code and tables, Python's classes. Dark: those of many colours."""


class Links(HTMLParser):
    """What a page has ids for, links to and loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = page.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADING.get(tag, "") in given:
            self.loads.append(given[LOADING[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, f"{built.stdout}\n{built.stderr}\nA new page of docs/ also goes into mkdocs.yml."
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {page: Links(page) for page in sorted(site.rglob("*.html"))}


def test_every_page_of_docs_is_in_the_navigation(site: Path, pages: dict[Path, Links]) -> None:
    front = pages[site / "index.html"]
    reached = {(site / urlsplit(link).path).resolve() for link in front.links if not urlsplit(link).scheme}
    for source in (ROOT / "docs").rglob("*.md"):
        name = "index.html" if source.name == "README.md" else f"{source.stem}.html"
        assert site / source.relative_to(ROOT / "docs").with_name(name) in reached, source


def test_every_link_within_the_site_leads_to_a_page_and_an_anchor(site: Path, pages: dict[Path, Links]) -> None:
    """Also those in the pages made from the code, and in raw HTML, of which strict mode knows nothing."""
    broken = [
        f"{page.relative_to(site)}: {link}" for page, link in _links(pages) if not _is_there(site, page, link, pages)
    ]
    assert not broken


def test_no_page_loads_anything_from_another_host(site: Path, pages: dict[Path, Links]) -> None:
    foreign = [
        f"{page.relative_to(site)}: {one}" for page, links in pages.items() for one in links.loads if _foreign(one)
    ]
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        foreign += [
            f"{sheet.name}: {one}" for one in re.findall(r"url\(([^)]*)\)|@import ([^;]*)", text) if _foreign(one[0])
        ]
    assert not foreign


def test_equations_are_drawn_by_the_browser_itself(site: Path, pages: dict[Path, Links]) -> None:
    text = pages[site / "gagpo.html"].text
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') >= 7
    assert "\\sum" not in text


def test_the_site_in_a_browser_is_in_order_in_both_schemes(site: Path) -> None:
    """Every kind of page: what axe finds, errors, requests that leave; and that the search finds a word."""
    with _served(site) as url, start_chromium() as browser:
        for scheme, names in SHOWN.items():
            with watched_page(browser, dark=scheme == "dark") as watched:
                for name in names:
                    watched.page.goto(f"{url}/{name}")
                    assert watched.axe() == [], name
                    assert watched.sideways() <= 0, name
                box = watched.page.get_by_role("textbox", name="Search")
                search = watched.page.get_by_role("dialog", name="Search")
                box.focus()
                expect(search).to_contain_text("Type to start searching")  # what is typed earlier is not looked for
                box.press_sequentially("GAGPO_TRAINER_NPROC")
                found = search.get_by_role("link")
                expect(found.first).to_have_attribute("href", re.compile(r"reference/settings\.html"))
                assert watched.axe() == []
                assert watched.faults == []


def test_references_name_what_the_code_has(site: Path, pages: dict[Path, Links]) -> None:
    recipe = pages[site / "reference/recipe.html"]
    assert {
        "model",
        "model.lora_rank",
        "environments.state_key",
        "algorithm.gagpo.lam",
        "algorithm.critic",
    } <= recipe.ids
    rest = pages[site / "reference/rest-env-server.html"]
    assert {"post-v1-steps", "message-stepresult"} <= rest.ids
    assert "GAGPO_TRAINER_NPROC" in pages[site / "reference/settings.html"].text
    assert "gagpo-job-submit" in pages[site / "reference/cli.html"].ids
    assert "gagpo.client.Client.submit" in pages[site / "python/jobs.html"].ids


def test_what_is_set_where_the_site_is_built_stays_out_of_it(site: Path) -> None:
    """The references come from a process with an environment of its own."""
    assert str(ROOT) not in (site / "reference/settings.html").read_text(encoding="utf-8")


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def _links(pages: dict[Path, Links]) -> Iterator[tuple[Path, str]]:
    for page, links in pages.items():
        if page.name != "404.html":  # served for any path: its links begin at the host's root
            yield from ((page, link) for link in links.links if not _foreign(link) and not link.startswith("mailto:"))


def _is_there(site: Path, page: Path, link: str, pages: dict[Path, Links]) -> bool:
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    anchor = unquote(parts.fragment)
    return target.is_file() and (not anchor or target not in pages or anchor in pages[target].ids)


def _foreign(link: str) -> bool:
    return link.startswith("//") or urlsplit(link.strip("'\" ")).scheme in ("http", "https")
