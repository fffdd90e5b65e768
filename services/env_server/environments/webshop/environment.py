"""WebShop as the env server serves it: tasks, options, observations, rewards and state keys."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version

from services.env_server.environments.base import Observation, StepOutcome
from services.env_server.environments.state_digest import digest, encoded, history_after
from services.env_server.environments.webshop.catalogue.open import open_configured
from services.env_server.environments.webshop.expert import Expert, HastyExpert
from services.env_server.environments.webshop.options import OPTIONS, WebshopOptions, parse_options
from services.env_server.environments.webshop.shopping.pages import Errand
from services.env_server.environments.webshop.shopping.results import SEARCHES_KEPT, Results
from services.env_server.environments.webshop.shopping.shop import Shop, Turn
from services.env_server.environments.webshop.shopping.state import PageKind, ShopState
from services.env_server.environments.webshop.shopping.views import SEPARATOR
from services.env_server.environments.webshop.splits import GoalTasks
from services.env_server.environments.webshop.world import World
from shared.schemas.environment import EnvironmentDescription, InfoValue, StateKeyKind

MAX_STEPS = 15
"""The step limit that the literature's recipes use."""

EXPERTS_KEPT = 256
"""Experts that a process remembers with their plans: one serves all sessions of its task."""

WON = 1.0
"""The reward of a purchase that is exactly what was asked for."""


class WebshopEnvironment:
    """One live episode. It ends at the first purchase."""

    _turn: Turn
    _past: tuple[tuple[str, str], ...]
    """The last pages, each with the action that was taken on it; as many as options ask for."""
    _shown: str
    """The current page."""
    _text: str
    """The observation: the page, behind the past that options ask for."""
    _history: bytes

    def __init__(
        self, shop: Shop, errand: Errand, options: WebshopOptions, expert: Expert | HastyExpert | None
    ) -> None:
        """Use `WebshopFamily.open`."""
        self._shop = shop
        self._errand = errand
        self._options = options
        self._expert = expert
        self._remembered = max(options.num_prev_obs, options.num_prev_actions)
        self._start()

    def reset(self) -> Observation:
        """Start the episode anew and return its first observation."""
        self._start()
        return self._observe()

    def step(self, action: str) -> StepOutcome:
        """Apply one action; anything that means nothing on the current page changes nothing."""
        before = self._shown
        self._turn = self._shop.act(self._errand, self._turn, action)
        self._shown = self._turn.page.show(self._options.view)
        if self._remembered:
            self._past = (*self._past, (before, action))[-self._remembered :]
        self._text = self._with_past()
        self._history = history_after(self._history, action, self._text)
        return StepOutcome(self._observe(), self._reward(), self._turn.purchase is not None, self._turn.understood)

    def clone(self) -> "WebshopEnvironment":
        """An independent copy in the same state. All that an episode is made of is immutable, and so shared."""
        twin = WebshopEnvironment.__new__(WebshopEnvironment)
        twin.__dict__.update(self.__dict__)
        return twin

    def state_key(self, kind: StateKeyKind) -> str:
        """16 hexadecimal digits, equal exactly when two states of the same task are the same under ``kind``."""
        state = self._turn.state
        match kind:
            case StateKeyKind.OBSERVATION:
                data = self._text
            case StateKeyKind.OBSERVATION_INVENTORY:
                data = f"{self._text}\0{sorted(state.options)}"
            case StateKeyKind.SIMULATOR:
                data = _true_state(state)
            case StateKeyKind.HISTORY:
                return self._history.hex()
        return digest(encoded(data)).hex()

    def _start(self) -> None:
        self._turn = self._shop.enter(self._errand)
        self._past = ()
        self._shown = self._text = self._turn.page.show(self._options.view)
        self._history = digest(encoded(self._text))

    def _reward(self) -> float:
        paid = 0.0 if self._turn.purchase is None else self._turn.purchase.total
        return float(paid == WON) if self._options.reward == "success" else paid

    def _with_past(self) -> str:
        """The observation behind the previous ones, each before the action that was taken on it."""
        said = []
        for back, (text, action) in zip(range(len(self._past), 0, -1), self._past, strict=True):
            said += [text] * (back <= self._options.num_prev_obs) + [action] * (back <= self._options.num_prev_actions)
        return SEPARATOR.join([*said, self._shown])

    def _observe(self) -> Observation:
        turn, goal = self._turn, self._errand.goal
        actions, purchase = turn.page.actions, turn.purchase
        info: dict[str, InfoValue] = {
            "won": purchase is not None and purchase.total == WON,
            "task_type": goal.kind.value,
            "goal": goal.instruction,
            "has_search_bar": actions.search_bar,
            "clickables": list(actions.clickables),
            "url": turn.page.url,
            "page": dict(turn.page.parts),
        }
        if purchase is not None:
            info |= {"score": purchase.total, **purchase.info()}
        if turn.error is not None:
            info["error"] = turn.error
        if self._expert is not None:
            info["expert_action"] = self._expert.action(turn.state)
            info["optimal_steps"] = self._expert.optimal_steps
        return Observation(self._text, actions.admissible, info)


class WebshopFamily:
    """All WebShop tasks of the data that ``WEBSHOP_DATA`` points to, or of generated data where it is not set."""

    def __init__(self, world: World | None = None, *, searches_kept: int = SEARCHES_KEPT) -> None:
        """``searches_kept`` rankings are remembered. Raises `EnvironmentDataError` for missing or damaged data."""
        self.world = open_configured() if world is None else world
        self._tasks = GoalTasks(self.world)
        self._results = Results(self.world, searches_kept=searches_kept)
        self._shops = {mended: Shop(self.world, self._results, mended=mended) for mended in (False, True)}
        self._expert = lru_cache(maxsize=EXPERTS_KEPT)(self._make_expert)

    def describe(self) -> EnvironmentDescription:
        """Splits and sizes, options, versions and the data's digest."""
        return EnvironmentDescription(
            name="webshop",
            splits={split: len(tasks) for split, tasks in self._tasks.splits.items()},
            max_steps=MAX_STEPS,
            action_format="search[words] where the page has a search bar, or click[one of the clickables]",
            options=[option.describe() for option in OPTIONS],
            versions={package: version(package) for package in ("gagpo", "rapidfuzz", "regex")},
            data_digest=self.world.digest,
        )

    def tasks(self, split: str) -> Sequence[str]:
        """The task ids of a split, in order. Raises `UnknownSplitError`."""
        return self._tasks.tasks(split)

    def draw(self, split: str, seed: int, options: Mapping[str, InfoValue]) -> str:
        """A task of a split by the original's weighted draw. Raises `UnknownSplitError` or `InvalidOptionError`."""
        return self._tasks.draw(split, seed, mended=parse_options(options).mended)

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> WebshopEnvironment:
        """An episode of a task, not yet reset. Raises `UnknownTaskError` or `InvalidOptionError`."""
        chosen = parse_options(options)
        goal = self._tasks.goal(task_id)
        errand = Errand(str(goal.index), goal, show_attributes=chosen.show_attrs)
        expert = self._expert_for(task_id, chosen) if chosen.expert else None
        return WebshopEnvironment(self._shops[chosen.mended], errand, chosen, expert)

    def _expert_for(self, task_id: str, options: WebshopOptions) -> Expert | HastyExpert:
        optimal = self._expert(task_id)
        if options.expert_style == "optimal":
            return optimal
        return HastyExpert(optimal, options.expert_seed, options.expert_haste)

    def _make_expert(self, task_id: str) -> Expert:
        return Expert(self.world, self._tasks.goal(task_id), self._results)


def _true_state(state: ShopState) -> str:
    """Page, item and options; on results, where another search shows other things, the search and the page number."""
    if state.kind is PageKind.RESULTS:
        return f"{state.kind}\0{state.query}\0{state.page_number}"
    return f"{state.kind}\0{state.sub_page}\0{state.product}\0{sorted(state.options)}"
