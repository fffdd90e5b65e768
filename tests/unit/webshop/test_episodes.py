"""Every episode that was recorded from the original, played again: pages, addresses, clickables, rewards and errors."""

from collections.abc import Iterator
from typing import Any

import pytest

from services.env_server.environments.webshop.environment import WebshopFamily
from services.env_server.environments.webshop.shopping.page import Page, View
from services.env_server.environments.webshop.shopping.pages import Errand
from services.env_server.environments.webshop.shopping.shop import Shop, Turn
from tests.webshop_world import recorded_episodes, recorded_goal, recorded_world

EPISODES, PAGES = 236, 3_187
"""Recorded, and recorded up to the first step at which the original raises."""


def played(shop: Shop, episode: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Turn]]:
    """What was recorded, beside what happens here, up to the first step at which the original raises."""
    attributes = episode["config"].get("show_attrs", False)
    errand = Errand(episode["reset"]["session"], recorded_goal(episode), attributes)
    turn = shop.enter(errand)
    yield episode["reset"], turn
    for step in episode["steps"]:
        if step.get("reset"):
            errand = Errand(step["session"], recorded_goal(episode, int(step["session"])), attributes)
            turn = shop.enter(errand)
        else:
            turn = shop.act(errand, turn, step["action"] or "")
        yield step, turn
        if "error" in step:
            return


def shown(page: Page) -> dict[str, Any]:
    """A page as the recordings have it."""
    actions = page.actions
    return {
        "text": page.show(View.TEXT),
        "text_rich": page.show(View.TEXT_RICH),
        "url": page.url,
        "available": {"has_search_bar": actions.search_bar, "clickables": list(actions.clickables)},
    }


def test_every_recorded_page_is_equal_to_the_letter() -> None:
    shop, pages = Shop(recorded_world()), 0
    for episode in recorded_episodes():
        for number, (recorded, turn) in enumerate(played(shop, episode)):
            assert shown(turn.page) == {name: recorded[name] for name in shown(turn.page)}, (episode["id"], number)
            pages += 1
    assert (len(recorded_episodes()), pages) == (EPISODES, PAGES)


def test_every_recorded_reward_is_equal_with_its_parts_and_nothing_else_pays() -> None:
    shop, purchases = Shop(recorded_world()), 0
    for episode in recorded_episodes():
        for recorded, turn in played(shop, episode):
            paid = None if turn.purchase is None else (turn.purchase.total, dict(turn.purchase.info()))
            if recorded.get("done"):
                assert paid == (recorded["reward"], recorded["verbose_info"]), episode["id"]
                purchases += 1
            else:
                assert paid is None, episode["id"]
    assert purchases > 150


def test_an_action_is_understood_where_the_original_carried_it_out() -> None:
    """Its reward is the integer 0 where it did nothing, and a float otherwise."""
    shop = Shop(recorded_world())
    for episode in recorded_episodes():
        for recorded, turn in played(shop, episode):
            if "reward" in recorded:
                assert turn.understood == isinstance(recorded["reward"], float), (episode["id"], recorded["action"])


def test_where_the_original_raises_nothing_changes_and_the_error_is_named() -> None:
    shop, errors = Shop(recorded_world()), []
    for episode in recorded_episodes():
        before = None
        for recorded, turn in played(shop, episode):
            if "error" in recorded:
                assert turn.error is not None
                assert turn.error.startswith(recorded["error"])
                assert turn.understood
                assert before is not None
                assert (turn.state, turn.page) == (before.state, before.page)
                errors.append(recorded["error"])
            else:
                assert turn.error is None
            before = turn
    assert sorted(errors) == ["IndexError", "TypeError"]


@pytest.mark.parametrize("view", ["text", "text_rich", "url"])
def test_an_episode_served_is_the_recorded_one_up_to_its_first_purchase(view: str) -> None:
    family, terminated = WebshopFamily(recorded_world()), 0
    for episode in recorded_episodes():
        config = episode["config"]
        if config.get("session_prefix") or config.get("global_random_seed"):
            continue  # a session that is not named after its goal
        options = {name: value for name, value in config.items() if name == "show_attrs"}
        task = f"{episode['goal_set']}-{episode['goal_idx']}"
        environment = family.open(task, {"observation_mode": view, **options})
        assert environment.reset().text == episode["reset"][view]
        for step in episode["steps"]:
            if step.get("reset"):
                break
            outcome = environment.step(step["action"] or "")
            assert outcome.observation.text == step[view], episode["id"]
            if "error" in step:
                break
            assert (outcome.reward, outcome.terminated) == (step["reward"], step["done"])
            if outcome.terminated:
                terminated += 1
                break
    assert terminated > 130


def test_observations_with_a_past_are_the_recorded_ones() -> None:
    family, compared = WebshopFamily(recorded_world()), 0
    for episode in recorded_episodes():
        if "num_prev_actions" not in episode["config"]:
            continue
        options = {"observation_mode": "text", **episode["config"]}
        environment = family.open(f"{episode['goal_set']}-{episode['goal_idx']}", options)
        assert environment.reset().text == episode["reset"]["text"]
        for step in episode["steps"]:
            assert environment.step(step["action"]).observation.text == step["state"]
            compared += 1
    assert compared == 27
