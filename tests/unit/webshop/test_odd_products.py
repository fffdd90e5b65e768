"""Products that no careful merchant would list: their pages are shown, their options chosen, and they are bought."""

import json
from typing import Any

import pytest

from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.open import open_world
from services.env_server.environments.webshop.environment import WebshopFamily
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.recorded import RecordedSource

ODD_VALUES = [
    "wine/red",
    "größe ½",
    "🙂🙂",
    '5" x 7"',
    "back\\slash",
    "<b>bold</b> & 'more'",
    "search_results",
    "buy now",
    "description",
    "a]b[c",
    "]",
    "red ]",
    "日本語",
]
PLAIN: dict[str, Any] = {
    "category": "beauty",
    "query": "odd things",
    "product_category": "Odd › Things",
    "description": "",
    "bullets": [],
    "pricing": [100.0],
    "price_tag": "$100.0",
    "options": {},
    "attributes": ["odd"],
    "rating": "N.A.",
    "main_image": "",
    "title_nouns": ["thing"],
    "instruction": "Find me odd things",
    "instruction_attributes": ["odd"],
}
PRODUCTS = [
    {"asin": "B000000001", "name": "thing", "options": {"kind": ODD_VALUES, "sort": ["wine/red", "plain"]}},
    {"asin": "B000000002", "name": "", "title_nouns": []},
    {
        "asin": "B000000003",
        "name": "thing three",
        "description": " \n\t ",
        "bullets": ["", " ", "\n", "two\nlines", "\xa0x\xa0"],
    },
    {"asin": "B000000004", "name": "<script>alert(1)</script>", "description": "&amp; < >", "product_category": ""},
]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> WebshopFamily:
    folder = tmp_path_factory.mktemp("odd")
    file = folder / "products.jsonl"
    file.write_text("\n".join(json.dumps(PLAIN | product) for product in PRODUCTS), "utf-8")
    build_catalogue(RecordedSource(file), folder / "catalogue")
    return WebshopFamily(open_world(folder / "catalogue"))


def at(family: WebshopFamily, asin: str, *actions: str, mode: str = "text_rich") -> Any:
    """The last outcome on the way to a product's page and on from there."""
    environment = family.open("synthetic-0", {"observation_mode": mode})
    environment.reset()
    for action in ("search[<q> odd things]", f"click[{asin}]", *actions):
        outcome = environment.step(action)
        assert outcome.valid_action, action
    return outcome


@pytest.mark.parametrize("value", [value for value in ODD_VALUES if value not in ("buy now", "description", "a]b[c")])
def test_an_odd_value_is_chosen_and_bought(family: WebshopFamily, value: str) -> None:
    chosen = at(family, "B000000001", f"click[{value}]").observation.info["page"]["options"]
    assert chosen == {"sort" if value == "wine/red" else "kind": value}  # of two options, the last one has it
    bought = at(family, "B000000001", f"click[{value}]", "click[buy now]")
    assert bought.terminated
    line = next(line for line in bought.observation.text.split("\n") if line.startswith("{"))
    assert json.loads(line) == chosen


def test_a_value_called_like_a_button_is_that_button(family: WebshopFamily) -> None:
    assert at(family, "B000000001", "click[buy now]").observation.info["page"]["options"] == {}
    assert at(family, "B000000001", "click[description]").observation.info["page"]["sub_page"] == "Description"


def test_a_value_that_breaks_the_action_is_listed_but_not_admissible(family: WebshopFamily) -> None:
    observation = at(family, "B000000001").observation
    assert "a]b[c" in observation.info["clickables"]
    assert "click[a]b[c]" not in observation.admissible_actions
    assert "click[red ]]" in observation.admissible_actions


def test_white_space_is_a_segment_only_without_a_newline(family: WebshopFamily) -> None:
    rest = at(family, "B000000003", "click[features]", mode="text").observation.text.split(" [SEP] ")[4:]
    assert rest == ["", "", "two\nlines", "x"]
    assert at(family, "B000000003", "click[description]", mode="text").observation.text.endswith("< Prev")
    assert (
        " [SEP] B000000002 [SEP] $100.0 [SEP] "
        in at(family, "B000000002", "click[< prev]", mode="text").observation.text
    )


def test_markup_in_a_product_is_text_in_html(family: WebshopFamily) -> None:
    html = at(family, "B000000004", mode="html").observation.text
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&amp;amp; &lt; &gt;" in at(family, "B000000004", "click[description]", mode="html").observation.text


def test_few_goals_still_make_splits_and_draws(family: WebshopFamily) -> None:
    splits = family.describe().splits
    assert sum(splits.values()) == len(family.world.goals(GoalKind.SYNTHETIC)) == 26 + 3
    for split in splits:
        assert family.draw(split, 1, {}) in list(family.tasks(split))
