"""All pages of the dashboard, in the order of the menu."""

from services.trainer.dashboard import credit, curves, health, play, run, runs
from services.trainer.dashboard.page import Page

PAGES: tuple[Page, ...] = (runs.PAGE, run.PAGE, curves.PAGE, credit.PAGE, play.PAGE, health.PAGE)
