"""How long a page takes: from a click to what was drawn because of it, and the processor time that went into that."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

_WATCH = """(wanted) => {
  let clicked = performance.now();
  addEventListener("click", (event) => { clicked = event.timeStamp; }, { capture: true, once: true });
  window.drawn = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (!document.querySelector(wanted)) return;
      observer.disconnect();
      // A task that follows the next frame begins once that frame was drawn.
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - clicked)));
    });
    observer.observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true });
  });
}"""

_COUNT_FRAMES = """() => {
  window.gaps = [];
  let last = null;
  const next = (now) => {
    if (last !== null) window.gaps.push(now - last);
    last = now;
    window.counting = requestAnimationFrame(next);
  };
  window.counting = requestAnimationFrame(next);
}"""


class Stopwatch:
    """Times what a page does."""

    def __init__(self, page: Page, server: int) -> None:
        """``server`` is the process id of the service behind the page."""
        self._page = page
        self._server = server
        self._devtools = page.context.new_cdp_session(page)
        self._devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    @contextmanager
    def slowed(self, times: int) -> Iterator[None]:
        """Have the page's processor be so many times slower than it is."""
        self._devtools.send("Emulation.setCPUThrottlingRate", {"rate": times})
        try:
            yield
        finally:
            self._devtools.send("Emulation.setCPUThrottlingRate", {"rate": 1})

    @contextmanager
    def until(self, selector: str) -> "Iterator[Taken]":
        """From the next click until an element that fits ``selector``, and was not there before, is drawn."""
        assert self._page.locator(selector).count() == 0, f"{selector} is there already"
        with self.spent() as taken:
            self._page.evaluate(_WATCH, selector)
            yield taken
            drawn_ms = self._page.evaluate("window.drawn")
        taken.wall_ms = drawn_ms

    @contextmanager
    def spent(self) -> "Iterator[Taken]":
        """What is spent meanwhile; filled in at the end."""
        taken, page_s, server_s, began = Taken(), self._page_s(), self._server_s(), time.monotonic()
        yield taken
        taken.wall_ms = 1000 * (time.monotonic() - began)
        taken.page_ms = 1000 * (self._page_s() - page_s)
        taken.server_ms = 1000 * (self._server_s() - server_s)

    @contextmanager
    def frames(self) -> Iterator[list[float]]:
        """Milliseconds between one frame and the next meanwhile; the list is filled at the end."""
        gaps: list[float] = []
        self._page.evaluate(_COUNT_FRAMES)
        yield gaps
        gaps += self._page.evaluate("cancelAnimationFrame(window.counting), window.gaps")

    def _page_s(self) -> float:
        """Processor time of the page's main thread so far."""
        metrics = self._devtools.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    def _server_s(self) -> float:
        """Processor time of the service so far, over all its threads."""
        threads = Path(f"/proc/{self._server}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


@dataclass(slots=True)
class Taken:
    """What something took. All in milliseconds."""

    wall_ms: float = 0.0
    page_ms: float = 0.0
    """Processor time of the page's main thread."""
    server_ms: float = 0.0
    """Processor time of the service."""

    @property
    def processor_ms(self) -> float:
        """What it would take at least on one core that has nothing else to do."""
        return self.page_ms + self.server_ms

    def __str__(self) -> str:
        return f"{self.wall_ms:.0f} ms (page {self.page_ms:.0f} ms, service {self.server_ms:.0f} ms of processor time)"
