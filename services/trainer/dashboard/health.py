"""Whether everything that training needs is well."""

from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import heading


async def build(view: View) -> None:
    """Each service."""
    heading("Health", "Every service that training needs.")


PAGE = Page("/health", "Health", build, menu="Health")
