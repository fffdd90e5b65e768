"""Actions, pages and their views, and the accidents of the original with and without `mended`."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.env_server.environments.webshop.shopping.action import Action, parse_action
from services.env_server.environments.webshop.shopping.page import View
from services.env_server.environments.webshop.shopping.pages import Errand
from services.env_server.environments.webshop.shopping.shop import Shop, Turn
from services.env_server.environments.webshop.shopping.state import PageKind
from tests.webshop_world import recorded_episodes, recorded_goal, recorded_world


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("search[Red Shoes]", Action("search", "red shoes")),
        ("click[Buy Now]. bla", Action("click", "buy now")),
        ("click[ buy now ]", Action("click", " buy now ")),
        ("search[a]]", Action("search", "a]")),
        ("search[a][b]", Action("search[a]", "b")),
        ("search[x [y] z]", Action("search[x ", "y] z")),
        ("search[[]", Action("search", "[")),
        ("search[]]", Action("search", "]")),
        (" click[a]\nclick[b]", Action(" click", "a")),
        ("Search[a]", Action("Search", "a")),
        ("search[]", None),
        ("search[][]", Action("search", "][")),
        ("[a]", None),
        ("search[a", None),
        ("search a]", None),
        ("]a[", None),
        ("say\nclick[a]", None),
        ("click[a\nb]", None),
        ("", None),
    ],
)
def test_an_action_is_a_name_and_what_stands_in_the_last_brackets(text: str, action: Action | None) -> None:
    assert parse_action(text) == action


@given(st.text(alphabet="ab[]\n ", max_size=12))
def test_an_action_is_what_the_originals_expression_finds(text: str) -> None:
    found = re.match(r"(.+)\[(.+)\]", text)
    assert parse_action(text) == (None if found is None else Action(found[1], found[2].lower()))


def test_a_text_of_brackets_alone_is_parsed_at_once() -> None:
    assert parse_action("[" * 1_000_000) is None
    assert parse_action("[" * 1_000_000 + "]") == Action("[" * 999_998, "[")


class Strings(HTMLParser):
    """Collects the strings in a document's body, and the values of its buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.strings: list[str] = []
        self.buttons: list[str] = []
        self._in_body = False
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_body |= tag == "body"
        if tag not in ("meta", "input"):
            self.open.append(tag)
        if tag == "button":
            self.buttons.append(dict(attrs)["value"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._in_body and not ("\n" in data and data.isspace()):
            self.strings.append(data)


def read(document: str) -> Strings:
    reader = Strings()
    reader.feed(document)
    reader.close()
    assert reader.open == []
    return reader


def errand(episode: int = 0) -> Errand:
    recorded = recorded_episodes()[episode]
    return Errand(str(recorded["goal_idx"]), recorded_goal(recorded))


def visit(*actions: str, mended: bool = False, start: Errand | None = None) -> Turn:
    """Where a session stands after some actions, all of them understood."""
    shop, about = Shop(recorded_world(), mended=mended), start or errand()
    turn = shop.enter(about)
    for action in actions:
        turn = shop.act(about, turn, action)
        assert turn.understood, action
    return turn


def test_html_says_what_the_plain_view_says_and_its_buttons_are_the_clickables() -> None:
    shop, kinds = Shop(recorded_world()), set()
    for episode in recorded_episodes()[::2]:
        about = Errand("7", recorded_goal(episode), episode["config"].get("show_attrs", False))
        turn = shop.enter(about)
        for step in episode["steps"]:
            turn = shop.act(about, turn, step["action"] or "")
            page = turn.page
            html = read(page.show(View.HTML))
            assert " [SEP] ".join(string.strip() for string in html.strings) == page.show(View.TEXT)
            assert {value[6:-1] for value in html.buttons} == set(page.actions.clickables)
            kinds.add(turn.state.sub_page or turn.state.kind)
    assert len(kinds) == 8


def test_only_the_home_page_has_a_search_bar_and_its_button_is_not_admissible() -> None:
    home = visit()
    assert home.page.actions.admissible == ("search[<query>]",)
    assert home.page.actions.clickables == ("search",)
    assert not Shop(recorded_world()).act(errand(), home, "click[search]").understood
    results = visit("search[wine]").page.actions
    assert not results.search_bar
    assert results.admissible[:2] == ("click[back to search]", "click[next >]")


CATEGORY = "<c> beauty"
"""A search of which every page is known: all products of a category, in catalogue order."""


def test_a_search_by_category_lists_all_of_it_and_by_query_too() -> None:
    world = recorded_world()
    expected = world.in_category("beauty")
    assert len(expected) > 50
    turn = visit(f"search[{CATEGORY}]")
    assert f"Page 1 (Total results: {len(expected)})" in turn.page.show(View.TEXT)
    query = world.product(expected[0]).query
    assert f"Total results: {len(world.with_query(query))})" in visit(f"search[<q>  {query} ]").page.show(View.TEXT)


def test_a_random_search_replays_to_the_same_products_and_pages_go_through_them() -> None:
    first, again = visit("search[<r>]"), visit("search[<r>]")
    assert first.page.show(View.TEXT) == again.page.show(View.TEXT)
    pages = [visit("search[<r>]", *["click[next >]"] * page).page.actions.clickables for page in range(5)]
    assert len({asin for page in pages for asin in page if asin.startswith("b0")}) > 40


def product_with(wanted: Any) -> int:
    """The number of the first product whose options have a value like that."""
    world = recorded_world()
    return next(
        number
        for number in range(len(world))
        if any(wanted(value) for values in world.product(number).options.values() for value in values)
    )


def item(number: int) -> list[str]:
    """Actions that lead to a product's item page, by way of the list of all products with its query."""
    world = recorded_world()
    product = world.product(number)
    place = list(world.with_query(product.query)).index(number)
    return [f"search[<q> {product.query}]", *["click[next >]"] * (place // 10), f"click[{product.asin}]"]


@pytest.mark.parametrize(("mended", "shown"), [(False, False), (True, True)])
def test_a_value_that_json_escapes_never_looks_chosen_unless_mended(mended: bool, shown: bool) -> None:
    number = product_with(lambda value: '"' in value)
    values = [value for values in recorded_world().product(number).options.values() for value in values]
    value = next(value for value in values if '"' in value)
    turn = visit(*item(number), f"click[{value}]", mended=mended)
    assert value in dict(turn.state.options).values()
    assert (f"You have clicked {value}." in turn.page.show(View.TEXT_RICH)) is shown


@pytest.mark.parametrize("mended", [False, True])
def test_a_value_quoted_in_the_search_looks_chosen_unless_mended(mended: bool) -> None:
    episode = next(e for e in recorded_episodes() if e["policy"] == "sc_urlconfuse" and '"' in e["steps"][0]["action"])
    turn = visit(*[step["action"] for step in episode["steps"][:2]], mended=mended)
    assert turn.state.options == ()
    assert ("You have clicked" in turn.page.show(View.TEXT_RICH)) is not mended


@pytest.mark.parametrize(("mended", "page"), [(False, 0), (True, 1)])
def test_a_search_for_search_results_leads_to_page_0_unless_mended(mended: bool, page: int) -> None:
    episode = next(e for e in recorded_episodes() if e["policy"] == "sc_page0")
    turn = visit(*[step["action"] for step in episode["steps"][:2]], "click[< prev]", mended=mended)
    assert (turn.state.kind, turn.state.page_number) == (PageKind.RESULTS, page)
    assert any(text.startswith("b0") for text in turn.page.actions.clickables) is mended


def test_next_ends_with_the_results_only_when_mended() -> None:
    total = len(recorded_world().in_category("beauty"))
    to_the_end = [f"search[{CATEGORY}]", *["click[next >]"] * ((total - 1) // 10)]
    assert "next >" in visit(*to_the_end, "click[next >]", "click[next >]").page.actions.clickables
    last = visit(*to_the_end, mended=True).page.actions.clickables
    assert "next >" not in last
    assert last[-1].startswith("b0")


def test_an_option_keeps_its_place_when_another_of_its_values_is_chosen() -> None:
    world = recorded_world()
    number = next(n for n in range(len(world)) if sum(len(v) > 1 for v in world.product(n).options.values()) > 1)
    (one, ones), (other, others) = [(k, v) for k, v in world.product(number).options.items() if len(v) > 1][:2]
    chosen = visit(*item(number), f"click[{ones[0]}]", f"click[{others[0]}]", f"click[{ones[1]}]").state
    assert chosen.options == ((one, ones[1]), (other, others[0]))
    back = visit(*item(number), f"click[{ones[0]}]", "click[features]", "click[< prev]").state
    assert back.options == ((one, ones[0]),)
    assert visit(*item(number), f"click[{ones[0]}]", "click[< prev]").state.options == ()


def test_visited_products_are_marked_until_back_to_search() -> None:
    number = recorded_world().in_category("beauty")[0]
    asin = recorded_world().product(number).asin
    seen = visit(f"search[{CATEGORY}]", f"click[{asin}]", "click[< prev]")
    assert f"[clicked button] {asin} [clicked button_]" in seen.page.show(View.TEXT_RICH)
    anew = visit(f"search[{CATEGORY}]", f"click[{asin}]", "click[back to search]", f"search[{CATEGORY}]")
    assert f"\n[button] {asin} [button_]\n" in anew.page.show(View.TEXT_RICH)
