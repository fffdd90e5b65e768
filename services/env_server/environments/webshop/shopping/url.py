"""The address of a page. Nothing in it is percent-encoded, and the original reads the kind of a page back out of it."""

import json

from services.env_server.environments.webshop.shopping.state import PageKind, ShopState
from shared.schemas.environment import InfoValue

BASE = "http://127.0.0.1:3000"
"""Where the original's shop pretends to live."""

_NAMED_KINDS = (PageKind.RESULTS, PageKind.ITEM, PageKind.SUB_PAGE, PageKind.DONE)


def page_url(state: ShopState, session: str, asin: str) -> str:
    """The url of the page that ``state`` shows; ``asin`` is that of its product, where it has one."""
    query = "" if state.query is None else state.query.replace(" ", "+")
    match state.kind:
        case PageKind.HOME:
            return f"{BASE}/{session}"
        case PageKind.RESULTS:
            return f"{BASE}/{state.kind}/{session}/{query}/{state.page_number}"
        case PageKind.ITEM:
            options = json.dumps(state.chosen())
            return f"{BASE}/{state.kind}/{session}/{asin}/{query}/{state.page_number}/{options}"
        case PageKind.SUB_PAGE:  # here and when done the original prints a dictionary, where an item page has JSON
            page = f"{state.page_number}/{state.sub_page}"
            return f"{BASE}/{state.kind}/{session}/{asin}/{query}/{page}/{state.chosen()}"
        case PageKind.DONE:
            return f"{BASE}/{state.kind}/{session}/{asin}/{state.chosen()}"


def url_parts(state: ShopState, session: str, asin: str) -> dict[str, InfoValue]:
    """What the url of a page is made of, by name; the parts that it does not have are left out."""
    parts: dict[str, InfoValue] = {"kind": state.kind.value, "session": session}
    if state.product is not None:
        parts |= {"asin": asin, "options": dict(state.options)}
    if state.query is not None and state.kind is not PageKind.DONE:
        parts |= {"keywords": list(state.query.split(" ")), "page": state.page_number}
    if state.sub_page is not None:
        parts["sub_page"] = state.sub_page.value
    return parts


def kind_by_text(url: str) -> PageKind:
    """The kind of page that the original takes a url for: the first of its names that occurs anywhere in the text.

    An accident: the words of a search are part of the url, so a search for ``search_results`` makes an item page count
    as a result list.
    """
    return next((kind for kind in _NAMED_KINDS if kind in url), PageKind.HOME)
