"""The options that a session of WebShop can be opened with."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.env_server.environments.option import Option, check_options
from services.env_server.environments.webshop.shopping.page import View
from shared.schemas.environment import InfoValue

MOST_PREVIOUS = 10
"""Observations and actions that an observation can repeat: more would make pages longer than any policy reads."""


@dataclass(frozen=True, slots=True)
class WebshopOptions:
    """Checked options."""

    observation_mode: str = View.TEXT_RICH.value
    reward: str = "score"
    compat: str = "original"
    show_attrs: bool = False
    num_prev_obs: int = 0
    num_prev_actions: int = 0
    expert: bool = False
    expert_style: str = "optimal"
    expert_haste: float = 1.0
    expert_seed: int = 0

    @property
    def view(self) -> View:
        """How pages are shown."""
        return View(self.observation_mode)

    @property
    def mended(self) -> bool:
        """Without the original's accidents."""
        return self.compat == "fixed"


OPTIONS = (
    Option(
        "observation_mode",
        "text: strings joined by [SEP]; text_rich: lines with marked buttons; html: a document; url: the address alone",
        "text_rich",
        tuple(view.value for view in View),
    ),
    Option(
        "reward",
        "score: the purchase's reward, 0 to 1; success: 1 for a reward of 1, else 0",
        "score",
        ("score", "success"),
    ),
    Option(
        "compat",
        "original keeps the accidents that published numbers rest on; fixed is without them",
        "original",
        ("original", "fixed"),
    ),
    Option("show_attrs", "item pages have an Attributes page behind them", False),
    Option("num_prev_obs", "previous observations that each observation begins with", 0, at_most=MOST_PREVIOUS),
    Option("num_prev_actions", "previous actions that each observation begins with", 0, at_most=MOST_PREVIOUS),
    Option("expert", "put expert_action and optimal_steps into info", False),
    Option(
        "expert_style",
        "optimal knows the product and wins; hasty shops as well, but takes any product and any option value",
        "optimal",
        ("optimal", "hasty"),
    ),
    Option("expert_haste", "how probably each choice is hasty, for expert_style = hasty", 1.0, at_most=1),
    Option("expert_seed", "decides what is chosen in haste, and when", 0),
)


def parse_options(given: Mapping[str, InfoValue]) -> WebshopOptions:
    """Check the options of a session. Raises `InvalidOptionError` naming the first bad one and what is allowed."""
    check_options("WebShop", OPTIONS, given)
    return WebshopOptions(**given)  # type: ignore[arg-type]  # each was checked
