"""All pages of the dashboard, in the order of the menu."""

from services.trainer.dashboard import credit, curves, health, live, play, run, runs
from services.trainer.dashboard.page import Page

PAGES: tuple[Page, ...] = (runs.PAGE, run.PAGE, live.PAGE, curves.PAGE, credit.PAGE, play.PAGE, health.PAGE)
