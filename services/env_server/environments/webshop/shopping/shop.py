"""What an action does: from a session's state to its next, with the page and the reward."""

from dataclasses import dataclass, replace

from services.env_server.environments.webshop.reward import Score, score
from services.env_server.environments.webshop.shopping.action import parse_action
from services.env_server.environments.webshop.shopping.page import Button, ChooseOption, OpenProduct, Page, Target
from services.env_server.environments.webshop.shopping.pages import Errand, Pages
from services.env_server.environments.webshop.shopping.results import Results, SearchError
from services.env_server.environments.webshop.shopping.state import PageKind, ShopState, SubPage
from services.env_server.environments.webshop.shopping.url import kind_by_text
from services.env_server.environments.webshop.world import World


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a session stands after an action."""

    state: ShopState
    page: Page
    understood: bool = True
    """False for an action that did nothing: none of the two, or a click on what is not on the page."""
    error: str | None = None
    """Why an action that was understood did nothing: the original raises at it."""
    purchase: Score | None = None
    """What was paid for, if the action bought something."""


class Shop:
    """One world, open to any number of sessions.

    Unless it is ``mended``, it has the original's accidents, because published results rest on them:

    - Prev goes by what the url's text looks like, words of the search included (`kind_by_text`). So it can lead from
      an item page to the page before the one it was on, down to a page 0, and from a sub-page to the results.
    - Next has no end.
    - An option value is shown as clicked when the url has it in double quotes.
    """

    def __init__(self, world: World, results: Results | None = None, *, mended: bool = False) -> None:
        """Nothing of the world is read yet. Shops of one world may share ``results``."""
        self._world = world
        self._mended = mended
        self._pages = Pages(world, results or Results(world), mended=mended)

    def enter(self, errand: Errand) -> Turn:
        """A session's first page."""
        state = ShopState()
        return Turn(state, self._pages.page(state, errand))

    def act(self, errand: Errand, turn: Turn, text: str) -> Turn:
        """What comes of an action. One that does nothing leaves the state and the page as they are."""
        state, purchase = self._next(errand, turn, text)
        if state is None:
            return Turn(turn.state, turn.page, understood=False)
        try:
            return Turn(state, self._pages.page(state, errand), purchase=purchase)
        except SearchError as error:
            # The original has changed half of the session when it raises here. That is not followed.
            return Turn(turn.state, turn.page, error=str(error))

    def _next(self, errand: Errand, turn: Turn, text: str) -> tuple[ShopState | None, Score | None]:
        action = parse_action(text)
        if action is None:
            return None, None
        if action.name == "search":  # on every page, whether it shows a search bar or not
            return ShopState(PageKind.RESULTS, action.argument, 1, visited=turn.state.visited), None
        target = turn.page.actions.targets.get(action.argument) if action.name == "click" else None
        if target is Button.BUY:
            return self._buy(errand, turn.state)
        return None if target is None else self._follow(turn, target), None

    def _follow(self, turn: Turn, target: Target) -> ShopState | None:
        state = turn.state
        match target:
            case Button.BACK_TO_SEARCH:
                return ShopState()
            case Button.NEXT:
                return _results(state, 1)
            case Button.PREVIOUS:
                return self._previous(turn)
            case SubPage():
                return replace(state, kind=PageKind.SUB_PAGE, sub_page=target)
            case OpenProduct(product):
                visited = state.visited | {product}
                return ShopState(PageKind.ITEM, state.query, state.page_number, product, visited=visited)
            case ChooseOption(name, value):
                # A first choice comes last; another value of an option takes the place of the one before.
                return replace(state, options=tuple((state.chosen() | {name: value}).items()))
        return None  # the button beside the search bar

    def _previous(self, turn: Turn) -> ShopState:
        state = turn.state
        match state.kind if self._mended else kind_by_text(turn.page.url):
            case PageKind.RESULTS:
                return _results(state, -1)
            case PageKind.ITEM:
                return _results(state, 0)
        return replace(state, kind=PageKind.ITEM, sub_page=None)

    def _buy(self, errand: Errand, state: ShopState) -> tuple[ShopState, Score]:
        assert state.product is not None  # only item pages have the button
        product, price = self._world.product(state.product), self._world.price(state.product)
        scored = score(errand.goal, product, price, state.chosen())
        return replace(state, kind=PageKind.DONE, sub_page=None, paid=scored.total), scored


def _results(state: ShopState, shift: int) -> ShopState:
    """The result list of a session's last search, some pages on. Item and options are forgotten."""
    return ShopState(PageKind.RESULTS, state.query, (state.page_number or 0) + shift, visited=state.visited)
