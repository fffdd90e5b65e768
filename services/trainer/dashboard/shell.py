"""What is around every page: the menu, light and dark, and what is shown where a page can't be drawn."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from nicegui import app as nicegui_app
from nicegui import ui
from nicegui.elements.sub_pages import SubPages
from nicegui.page_arguments import PageArguments
from redis.exceptions import RedisError

from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import notice
from services.trainer.dashboard.sign_in import OUT_PATH
from services.trainer.server.service import TrainerService
from shared.problems import ProblemError

logger = logging.getLogger(__name__)

PRIMARY = "#3b76d6"
"""Of what is switched on, on light ground and on dark."""

THEME_COOKIE = "gagpo_theme"
BUILD_DEADLINE_S = 30.0
"""How long a page may take to be drawn; Redis is waited for longer elsewhere."""

_STYLES = ("style.css", "credit.css", "episode.css", "play.css")
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f5fbf"/>'
    '<path d="M6 23 L12 16 L17 19 L26 8" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" '
    'stroke-linejoin="round"/></svg>'
)
_SWITCH_THEME = f"""
const dark = !document.body.classList.contains("body--dark");
document.cookie = "{THEME_COOKIE}=" + (dark ? "dark" : "light") + "; path=/; max-age=31536000; samesite=lax";
location.reload();
"""
_SIGN_OUT = f"location.assign('{OUT_PATH}')"
_MARK_CURRENT = """
for (const link of document.querySelectorAll("nav a"))
  link.toggleAttribute("aria-current", link.pathname === location.pathname);
"""


class Shell:
    """Draws the frame, and in it the page that the address names."""

    icon = _ICON

    def __init__(self, service: Callable[[], TrainerService], pages: Sequence[Page], *, signs_out: bool) -> None:
        """``service`` gives the running service; ``signs_out`` whether there is a session to end."""
        self._service = service
        self._pages = pages
        self._signs_out = signs_out
        self._styles = [
            nicegui_app.add_static_file(local_file=Path(__file__).with_name(name), url_path=f"/dashboard/{name}")
            for name in _STYLES
        ]

    def draw(self) -> None:
        """The whole document; NiceGUI calls it for every address that is a page's, or nobody's."""
        for style in self._styles:
            ui.add_head_html(f'<link rel="stylesheet" href="{style}">')
        theme = ui.context.client.request.cookies.get(THEME_COOKIE)
        ui.dark_mode(value={"dark": True, "light": False}.get(theme or ""))
        ui.colors(primary=PRIMARY)
        with ui.element("header").classes("bar"):
            self._menu()
        with ui.element("div").classes("page"):  # NiceGUI's own element around it is the main one
            _SubPages({page.route: self._opened(page) for page in self._pages})

    def _menu(self) -> None:
        ui.link("gagpo", "/").classes("brand")
        with ui.element("nav").props('aria-label="Pages"'):
            for page in self._pages:
                if page.menu is not None:
                    ui.link(page.menu, page.route).classes("menu")
        with ui.element("div").classes("bar-end"):
            ui.button(icon="contrast", on_click=lambda: ui.run_javascript(_SWITCH_THEME), color=None).props(
                'flat round dense aria-label="Light or dark"'
            )
            if self._signs_out:
                # No link: those are followed within the pages.
                ui.button("Sign out", on_click=lambda: ui.run_javascript(_SIGN_OUT), color=None).props(
                    "flat dense no-caps"
                )

    def _opened(self, page: Page) -> Callable[[PageArguments], Awaitable[None]]:
        async def opened(arguments: PageArguments) -> None:
            ui.page_title(f"{page.title} · gagpo")
            ui.run_javascript(_MARK_CURRENT)
            view = View(self._service(), arguments.path_parameters, dict(arguments.query_parameters))
            try:
                async with asyncio.timeout(BUILD_DEADLINE_S):
                    await page.build(view)
            except ProblemError as problem:
                notice("bad", problem.title, problem.detail)
            except TimeoutError:
                notice(
                    "bad", "This took too long", "Redis or a disk is slow or away: the health page tells. Load again."
                )
            except (RedisError, OSError) as error:
                logger.warning("the page %s could not be drawn: %s", page.route, error)
                notice("bad", "Redis does not answer", f"{error}\nThe health page says how to start it.")
            except Exception:  # one page's fault is no other page's; NiceGUI would show nothing at all
                logger.exception("the page %s could not be drawn", page.route)
                notice("bad", "This page could not be drawn", "The trainer service's log has the reason.")

        return opened


class _SubPages(SubPages):
    """Says in this product's words that there is no such page."""

    def _render_404(self) -> None:
        notice("warn", "There is no such page", "The menu leads to those there are.")
