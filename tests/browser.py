"""Debian's Chromium without a screen, and what the dashboard's tests look at in it."""

import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

DEADLINE_MS = 60_000.0
"""For everything that is waited for on a page; the machine may have other work to do."""

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_SERIOUS = ("serious", "critical")
_TRANSITIONS_ENDED = """() => Promise.allSettled(
    document.getAnimations()
        .filter(one => one.playState === "running" && one.effect.getComputedTiming().endTime < 10_000)
        .map(one => one.finished)
)"""


@dataclass
class WatchedPage:
    """A page, and what went wrong on it."""

    page: Page
    faults: list[str] = field(default_factory=list)
    """Errors on the console, uncaught ones, and requests that failed or left this machine."""

    def axe(self, without: Container[str] = ()) -> list[str]:
        """Serious findings of the accessibility check, as the page is now, but those of the rules ``without``.

        What is fading in first comes to its end: half transparent text has no contrast to be judged.
        """
        self.page.evaluate(_TRANSITIONS_ENDED)
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} times)"
            for one in found
            if one["impact"] in _SERIOUS and one["id"] not in without
        ]

    def sideways(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@contextmanager
def start_chromium() -> Iterator[Browser]:
    """A browser of one's own; the test is skipped where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("the dashboard's tests need Chromium: apt-get update && apt-get install -y chromium")
    expect.set_options(timeout=DEADLINE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched_page(
    browser: Browser, *, width: int = 1280, height: int = 860, dark: bool = False
) -> Iterator[WatchedPage]:
    """A page with a fresh session; afterwards its ``faults`` have to be looked at."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
    )
    context.set_default_timeout(DEADLINE_MS)
    watched = WatchedPage(context.new_page())
    page, faults = watched.page, watched.faults
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: None if _given_up(request) else faults.append(f"failed: {request.url}"))
    page.on("request", lambda request: faults.append(f"left: {request.url}") if _leaves(request.url) else None)
    try:
        yield watched
    finally:
        context.close()


def _given_up(request: Request) -> bool:
    """Whether the browser no longer wanted it, since another page was gone to, or it became a download."""
    return request.failure == "net::ERR_ABORTED"


def _leaves(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
