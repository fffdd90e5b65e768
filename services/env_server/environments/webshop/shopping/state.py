"""What one session has done so far, as far as the shop cares: a small immutable value."""

from dataclasses import dataclass
from enum import StrEnum


class PageKind(StrEnum):
    """The kinds of page, under the names that stand in a page's url."""

    HOME = "home"
    """The search bar. The only kind whose url does not name it."""
    RESULTS = "search_results"
    ITEM = "item_page"
    SUB_PAGE = "item_sub_page"
    DONE = "done"


class SubPage(StrEnum):
    """The pages behind an item page, as its buttons and the url spell them."""

    DESCRIPTION = "Description"
    FEATURES = "Features"
    REVIEWS = "Reviews"
    ATTRIBUTES = "Attributes"


@dataclass(frozen=True, slots=True)
class ShopState:
    """Where a session stands. Everything on its page follows from this, its goal and the world."""

    kind: PageKind = PageKind.HOME
    query: str | None = None
    """What was searched for last, lower case; None on the home page only."""
    page_number: int | None = None
    """Of the result list, from 1 on; None on the home page. The original can be brought to page 0."""
    product: int | None = None
    """Number in the catalogue of the item that is looked at or was bought; None on the home page and on results."""
    sub_page: SubPage | None = None
    """On a sub-page: which one."""
    options: tuple[tuple[str, str], ...] = ()
    """Chosen values by option name, in the order in which the names were first chosen."""
    visited: frozenset[int] = frozenset()
    """Products whose item page was opened since the last visit of the home page."""
    paid: float | None = None
    """On the done page: the score of the purchase."""

    def chosen(self) -> dict[str, str]:
        """Chosen values by option name."""
        return dict(self.options)
