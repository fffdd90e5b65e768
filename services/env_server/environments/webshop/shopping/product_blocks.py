"""The parts of pages that depend on a product alone: made when first shown, and the same for all sessions."""

from collections.abc import Collection
from functools import cached_property

from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.shopping.page import Actions, Block, Button, ChooseOption, Target
from services.env_server.environments.webshop.shopping.piece import Piece, Role
from services.env_server.environments.webshop.shopping.state import SubPage

_NAVIGATION = (Button.BACK_TO_SEARCH, Button.PREVIOUS)
_USUAL_SUB_PAGES = (SubPage.DESCRIPTION, SubPage.FEATURES, SubPage.REVIEWS)
_ALL_SUB_PAGES = (*_USUAL_SUB_PAGES, SubPage.ATTRIBUTES)


class ProductBlocks:
    """What the shop says about one product."""

    def __init__(self, product: Product) -> None:
        """Nothing is made yet."""
        self.product = product

    @cached_property
    def listed(self) -> Block:
        """On a result list."""
        return self._listed(clicked=False)

    @cached_property
    def listed_as_visited(self) -> Block:
        """On a result list, after its item page was opened."""
        return self._listed(clicked=True)

    @cached_property
    def unchosen(self) -> Block:
        """The options of the item page, none shown as clicked."""
        return self.options(())

    def options(self, clicked: Collection[str]) -> Block:
        """The options of the item page, with these values shown as clicked."""
        pieces = []
        for name, values in self.product.options.items():
            pieces.append(Piece(name, tag="h4"))
            pieces += [Piece(value, Role.OPTION, clicked=value in clicked) for value in values]
        return Block(*pieces)

    @cached_property
    def item(self) -> Block:
        """The rest of the item page."""
        return self._item(_USUAL_SUB_PAGES)

    @cached_property
    def item_with_attributes(self) -> Block:
        """The same for a session that is shown attributes."""
        return self._item(_ALL_SUB_PAGES)

    @cached_property
    def actions(self) -> Actions:
        """What one can do on the item page."""
        return self._actions(_USUAL_SUB_PAGES)

    @cached_property
    def actions_with_attributes(self) -> Actions:
        """The same for a session that is shown attributes."""
        return self._actions(_ALL_SUB_PAGES)

    @cached_property
    def description(self) -> Block:
        """The Description page."""
        return Block(Piece(self.product.description))

    @cached_property
    def features(self) -> Block:
        """The Features page."""
        return Block(*[Piece(f" {bullet}") for bullet in self.product.bullets])

    @cached_property
    def attributes(self) -> Block:
        """The Attributes page."""
        product = self.product
        attributes = [Piece(f" {attribute}") for attribute in product.attributes]
        return Block(*attributes, *map(Piece, (product.category, product.query, product.product_category)))

    @cached_property
    def reviews(self) -> Block:
        """The Reviews page: empty, for the data has no reviews."""
        return Block()

    def sub_page(self, which: SubPage) -> Block:
        """What stands on a page behind the item page."""
        match which:
            case SubPage.DESCRIPTION:
                return self.description
            case SubPage.FEATURES:
                return self.features
            case SubPage.REVIEWS:
                return self.reviews
            case SubPage.ATTRIBUTES:
                return self.attributes

    def _listed(self, *, clicked: bool) -> Block:
        product = self.product
        asin = Piece(product.asin, Role.PRODUCT, clicked=clicked)
        return Block(asin, Piece(product.title, tag="h4"), Piece(product.price_tag, tag="h5"))

    def _item(self, sub_pages: Collection[SubPage]) -> Block:
        product = self.product
        return Block(
            Piece(product.title, tag="h2"),
            Piece(f"Price: {product.price_tag}", tag="h4"),
            Piece(f"Rating: {product.rating}", tag="h4"),
            *[Piece(page.value, Role.BUTTON) for page in sub_pages],
            Piece("Buy Now", Role.BUTTON),
        )

    def _actions(self, sub_pages: Collection[SubPage]) -> Actions:
        targets: dict[str, Target] = {button.value: button for button in _NAVIGATION}
        targets |= {page.lower(): page for page in sub_pages}
        targets[Button.BUY.value] = Button.BUY
        buttons = frozenset(targets)
        # A value of two options counts once, for the last of them. One that is called like a button is that button.
        for name, values in self.product.options.items():
            targets |= {value: ChooseOption(name, value) for value in values if value not in buttons}
        return Actions(targets)
