"""WebShop in the terminal: pages with numbers, and what a typed line means."""

import io

import pytest
from rich.console import Console

from gagpo.playing.shop_screen import ShopScreen
from shared.schemas.environment import InfoValue, Observation, StepResult
from shared.shop_page import Buttons, Clickable, Listed, page_lines
from tests.webshop_world import recorded_episodes

RESULTS = """Instruction:
Find me a red cup
[button] Back to Search [button_]
Page 1 (Total results: 12)
[button] Next > [button_]

[clicked button] B000000001 [clicked button_]
Red cup,
large
$4.99 to $7.0

[button] B000000002 [button_]
$2.5
"""
ITEM = """You have clicked red.
Instruction:
Find me a red cup
[button] Back to Search [button_]
[button] < Prev [button_]
color
  [clicked button] red [clicked button_]
  [button] light blue [button_]
Red cup
Price: $4.99
[button] Buy Now [button_]
"""
CLICKABLES = ["back to search", "< prev", "description", "buy now", "red", "light blue"]


def seen(text: str = ITEM, clickables: list[str] = CLICKABLES, **info: InfoValue) -> Observation:
    return Observation(
        session_id="s",
        task_id="human-1",
        observation=text,
        admissible_actions=[f"click[{text}]" for text in clickables],
        state_key="k",
        step_index=1,
        info={"goal": "Find me a red cup", "clickables": [*clickables], **info},
    )


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def screen_console() -> Console:
    return Console(file=io.StringIO(), width=60, highlight=False, soft_wrap=True)


def test_a_result_list_has_a_line_for_each_product() -> None:
    lines = page_lines(RESULTS, ["back to search", "next >", "b000000001", "b000000002"])
    assert lines == [
        Buttons([Clickable(1, "Back to Search", False)]),
        "Page 1 (Total results: 12)",
        Buttons([Clickable(2, "Next >", False)]),
        Listed(Clickable(3, "B000000001", True), "Red cup, large", "$4.99 to $7.0"),
        Listed(Clickable(4, "B000000002", False), "", "$2.5"),
    ]


def test_the_values_of_an_option_share_a_line_and_the_chosen_one_is_marked() -> None:
    console = screen_console()
    ShopScreen().show(console, seen())
    shown = printed(console)
    assert "Wanted: Find me a red cup" in shown
    assert " 5 red✓    6 light blue" in shown
    assert "You have clicked" not in shown


def test_on_every_recorded_page_everything_that_can_be_clicked_has_its_number() -> None:
    for episode in recorded_episodes()[::7]:
        for step in episode["steps"]:
            clickables = step["available"]["clickables"]
            lines = page_lines(step["text_rich"], clickables)
            shown = [button.number for line in lines if isinstance(line, Buttons) for button in line.buttons]
            shown += [line.button.number for line in lines if isinstance(line, Listed)]
            assert {number for number in shown if number is not None} == set(range(1, len(clickables) + 1))
            assert None not in shown


@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ("4", "click[buy now]"),
        ("buy", "click[buy now]"),
        ("Red", "click[red]"),
        ("light", "click[light blue]"),
        ("search red cups", "search[red cups]"),
        ("s red cups", "search[red cups]"),
        ("click[< prev]", "click[< prev]"),
        ("7", None),
        ("0", None),
        ("cup", None),
        ("b", None),
    ],
)
def test_what_a_typed_line_means(typed: str, action: str | None) -> None:
    assert ShopScreen().action(typed, seen()) == action


def test_the_farewell_tells_the_score_and_its_parts() -> None:
    parts: dict[str, InfoValue] = {"won": False, "score": 0.5, "r_type": 0.5, "r_att": 1.0, "w_att": 0.5}
    parts |= {"r_price": True, "w_price": 0.5, "optimal_steps": 4}
    now = seen(text="Thank you", clickables=[], **parts)
    result = StepResult(**now.model_dump(), reward=0.5, terminated=True, truncated=False)
    console = screen_console()
    ShopScreen().farewell(console, result)
    shown = [" ".join(line.split()) for line in printed(console).splitlines()]
    assert "Not solved in 1 steps; the expert needs 4." in shown
    assert "score 0.500 = type × Σ weight · share met" in shown
    assert "price yes 0.500" in shown
    assert not any(line.startswith("options") for line in shown), "the goal asked for none"
