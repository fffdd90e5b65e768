"""From a session's state to the page it sees."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from services.env_server.environments.webshop.goal import Goal
from services.env_server.environments.webshop.shopping.page import Actions, Block, Button, OpenProduct, Page, Target
from services.env_server.environments.webshop.shopping.piece import Piece, Role
from services.env_server.environments.webshop.shopping.product_blocks import ProductBlocks
from services.env_server.environments.webshop.shopping.results import Results
from services.env_server.environments.webshop.shopping.state import PageKind, ShopState
from services.env_server.environments.webshop.shopping.url import page_url, url_parts
from services.env_server.environments.webshop.world import World

PER_PAGE = 10
"""Products on one page of results."""

_PRODUCTS_KEPT = 4096
"""Products whose parts of pages are remembered: all of a small catalogue, those lately shown of a large one."""

_BACK = Piece("Back to Search", Role.BUTTON)
_PREVIOUS = Block(Piece("< Prev", Role.BUTTON))
_NEXT = Block(Piece("Next >", Role.BUTTON))
_HOME_ACTIONS = Actions({Button.SEARCH.value: Button.SEARCH}, search_bar=True)
_SUB_PAGE_ACTIONS = Actions({button.value: button for button in (Button.BACK_TO_SEARCH, Button.PREVIOUS)})
_NO_ACTIONS = Actions({})

_Content = tuple[tuple[Block, ...], Actions]


@dataclass(frozen=True)
class Errand:
    """What a session is about, and what of its pages does not depend on where it stands."""

    session: str
    """Its name in urls: the goal's index, as in the original."""
    goal: Goal
    show_attributes: bool = False
    """Item pages have a fourth page behind them, Attributes."""

    @cached_property
    def home(self) -> Block:
        """The whole home page."""
        label, instruction = Piece("Instruction: ", tag="h4"), Piece(self.goal.instruction)
        return Block(Piece("WebShop", tag="h1"), label, instruction, Piece("Search", Role.BUTTON))

    @cached_property
    def heading(self) -> Block:
        """The top of all other pages but the last."""
        return Block(Piece("Instruction:", tag="h4"), Piece(self.goal.instruction), _BACK)


class Pages:
    """All pages of one world."""

    def __init__(self, world: World, results: Results, *, mended: bool) -> None:
        """``mended``: without the accidents that `shop.Shop` describes."""
        self._world = world
        self._results = results
        self._mended = mended
        self._blocks = lru_cache(maxsize=_PRODUCTS_KEPT)(self._make_blocks)

    def page(self, state: ShopState, errand: Errand) -> Page:
        """The page that a session sees. Raises `SearchError` where its results cannot be listed."""
        product = None if state.product is None else self._blocks(state.product)
        asin = "" if product is None else product.product.asin
        url = page_url(state, errand.session, asin)
        if product is not None:
            blocks, actions = self._product_page(state, errand, product, url)
        elif state.kind is PageKind.RESULTS:
            blocks, actions = self._result_page(state, errand)
        else:
            blocks, actions = (errand.home,), _HOME_ACTIONS
        return Page(url, url_parts(state, errand.session, asin), blocks, actions)

    def _product_page(self, state: ShopState, errand: Errand, product: ProductBlocks, url: str) -> _Content:
        if state.kind is PageKind.DONE:
            return (_receipt(state, product.product.asin),), _NO_ACTIONS
        if state.sub_page is not None:
            return (errand.heading, _PREVIOUS, product.sub_page(state.sub_page)), _SUB_PAGE_ACTIONS
        clicked = self._clicked(state, url, product)
        options = product.options(clicked) if clicked else product.unchosen
        if errand.show_attributes:
            return (errand.heading, _PREVIOUS, options, product.item_with_attributes), product.actions_with_attributes
        return (errand.heading, _PREVIOUS, options, product.item), product.actions

    def _result_page(self, state: ShopState, errand: Errand) -> _Content:
        found = self._results.find(state.query or "", errand.session)
        number = state.page_number or 0
        buttons = [Button.BACK_TO_SEARCH]
        blocks = [errand.heading, Block(Piece(f"Page {number} (Total results: {len(found)})", tag="h3"))]
        if number > 1:
            buttons.append(Button.PREVIOUS)
            blocks.append(_PREVIOUS)
        # In the original Next has no end: beyond the last page the list is empty, and there is always one more.
        if not self._mended or number * PER_PAGE < len(found):
            buttons.append(Button.NEXT)
            blocks.append(_NEXT)
        targets: dict[str, Target] = {button.value: button for button in buttons}
        for product in _on_page(found, number):
            shown = self._blocks(product)
            blocks.append(shown.listed_as_visited if product in state.visited else shown.listed)
            targets[shown.product.asin.lower()] = OpenProduct(product)
        return tuple(blocks), Actions(targets)

    def _clicked(self, state: ShopState, url: str, blocks: ProductBlocks) -> Collection[str]:
        """The option values that an item page shows as clicked."""
        if self._mended:
            return {value for _, value in state.options}
        # An accident: the original shows a value as clicked when it stands in the url in double quotes. So one with a
        # quote, a backslash or a letter beyond ASCII never does (the url has JSON's escapes), and one quoted in the
        # search always does.
        if '"' not in url:
            return ()
        return {value for values in blocks.product.options.values() for value in values if f'"{value}"' in url}

    def _make_blocks(self, product: int) -> ProductBlocks:
        return ProductBlocks(self._world.product(product))


def _on_page(found: Sequence[int], number: int) -> Sequence[int]:
    """The products on a page, the first of which is 1. Page 0, which the original can be brought to, has none."""
    return found[(number - 1) * PER_PAGE : number * PER_PAGE] if number > 0 else ()


def _receipt(state: ShopState, asin: str) -> Block:
    """The last page. The fields of the target are never filled in; the misspelling is the original's."""
    bought = ("Purchased", "asin", asin, "options", _json_in_html(state.chosen()))
    unknown = ("attrs", "None", "category", "None", "query", "None", "product category", "None")
    target = ("Target", "asin", "options", "attrs", "price upper")
    goal = ("instuction text", "category", "product category", "query", "Goal ", "None")
    reward = ("Reward", "Your score (min 0.0, max 1.0)", str(state.paid), "Reward Details ", "None")
    thanks = ("Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)")
    return Block(*map(Piece, (*thanks, *bought, *unknown, *target, *goal, *reward)))


def _json_in_html(options: dict[str, str]) -> str:
    """JSON with sorted keys, and with what means something in HTML written as JSON escapes."""
    text = json.dumps(options, sort_keys=True)
    for letter in "<>&'":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
