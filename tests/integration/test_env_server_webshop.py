"""WebShop over HTTP: recorded episodes, groups that lose their workers, draws, and whatever a policy may send."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shared.schemas.environment import MAX_ACTION_CHARS
from tests.data_paths import real_data
from tests.processes import ServiceProcess, start_env_server, start_redis
from tests.webshop_world import recorded_episodes, recorded_world


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    data = real_data("webshop")
    recorded_world()  # builds the catalogue where it is not in the cache yet
    variables = {"GAGPO_ENV_ENVIRONMENTS": "{}", "GAGPO_ENV_SERVE": '["webshop"]', "WEBSHOP_DATA": str(data)}
    with start_redis() as redis, start_env_server(**variables, REDIS_URL=redis) as service:
        yield service


def open_group(server: ServiceProcess, **fields: Any) -> list[dict[str, Any]]:
    body = {"environment": "webshop", **({"task_id": "human-0"} if "split" not in fields else {}), **fields}
    response = httpx.post(f"{server.url}/v1/sessions", json=body, timeout=30.0)
    assert response.status_code == 201, response.text
    sessions: list[dict[str, Any]] = response.json()["sessions"]
    return sessions


def step(server: ServiceProcess, session: dict[str, Any], action: str) -> httpx.Response:
    body = {"action": action, "step_index": session["step_index"]}
    return httpx.post(f"{server.url}/v1/sessions/{session['session_id']}/step", json=body, timeout=30.0)


def stepped(server: ServiceProcess, session: dict[str, Any], *actions: str) -> dict[str, Any]:
    """The result of the last of some steps."""
    for action in actions:
        response = step(server, session, action)
        assert response.status_code == 200, response.text
        session = response.json()
    return session


def where(session: dict[str, Any]) -> Any:
    """What must not change at a step that does nothing."""
    return session["observation"], session["admissible_actions"], session["state_key"], session["info"]["url"]


def test_the_environment_lists_its_splits_and_tasks(server: ServiceProcess) -> None:
    (description,) = httpx.get(f"{server.url}/v1/environments").json()["environments"]
    assert description["splits"]["synthetic_train"] == 5410
    assert (description["max_steps"], description["data_digest"]) == (15, recorded_world().digest)
    tasks = f"{server.url}/v1/environments/webshop/tasks"
    page = httpx.get(f"{tasks}?split=synthetic_train&offset=5408&limit=10").json()
    assert page == {"tasks": ["synthetic-6908", "synthetic-6909"], "total": 5410, "offset": 5408}
    assert httpx.get(f"{tasks}?split=train").status_code == 404


def test_recorded_episodes_are_played_to_the_letter(server: ServiceProcess) -> None:
    for episode in [e for e in recorded_episodes() if e["policy"] == "heuristic"][:6]:
        (session,) = open_group(server, task_id=f"{episode['goal_set']}-{episode['goal_idx']}", max_steps=100)
        for recorded in episode["steps"]:
            if not recorded["action"]:
                continue  # not an action to this server; to the original, one that does nothing
            session = stepped(server, session, recorded["action"])
            assert session["observation"] == recorded["text_rich"]
            assert session["info"]["url"] == recorded["url"]
            assert session["info"]["clickables"] == recorded["available"]["clickables"]
            assert (session["reward"], session["terminated"]) == (recorded["reward"], recorded["done"])
            if session["terminated"]:
                assert step(server, session, "search[wine]").json()["type"] == "/problems/episode-over"
                break


def kill_the_workers(server: ServiceProcess) -> None:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.pid)], capture_output=True, text=True)
    for pid in listed.stdout.split():
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("state_key", ["simulator", "history"])
def test_a_group_that_loses_its_workers_goes_on_as_one_that_does_not(server: ServiceProcess, state_key: str) -> None:
    opening = {
        "split": "synthetic_valid",
        "index": 7,
        "count": 4,
        "state_key": state_key,
        "true_state": True,
        "options": {"expert": True},
    }
    disturbed, undisturbed = open_group(server, **opening), open_group(server, **opening)
    for turn in range(4):
        searches = (f"search[{word}]" for word in ("<r>", "shirt women", "<a>", "<c> garden"))
        clicks = [s["admissible_actions"][turn % len(s["admissible_actions"])] for s in undisturbed]
        actions = list(searches) if turn == 0 else clicks
        if turn in (1, 3):
            kill_the_workers(server)
        disturbed = [stepped(server, session, action) for session, action in zip(disturbed, actions, strict=True)]
        undisturbed = [stepped(server, session, action) for session, action in zip(undisturbed, actions, strict=True)]
        for one, other in zip(disturbed, undisturbed, strict=True):
            assert {**one, "session_id": ""} == {**other, "session_id": ""}
            assert (one["true_state"] == one["state_key"]) is (state_key == "simulator")


def test_the_expert_wins_over_http(server: ServiceProcess) -> None:
    (session,) = open_group(server, split="synthetic_test", index=3, options={"expert": True, "reward": "success"})
    steps = session["info"]["optimal_steps"]
    while not session.get("terminated"):
        session = stepped(server, session, session["info"]["expert_action"])
    assert (session["reward"], session["info"]["won"], session["step_index"]) == (1.0, True, steps)


def test_a_seed_draws_by_the_environments_own_rule(server: ServiceProcess) -> None:
    tasks = [open_group(server, split="human_valid", seed=seed, count=2)[1]["task_id"] for seed in range(8)]
    assert set(tasks) == {"human-2", "human-3"}
    assert tasks == [open_group(server, split="human_valid", seed=seed)[0]["task_id"] for seed in range(8)]
    body = {"environment": "webshop", "split": "robot_train", "seed": 1}
    assert httpx.post(f"{server.url}/v1/sessions", json=body).json()["type"] == "/problems/unknown-split"
    body |= {"split": "human_valid", "options": {"compat": "new"}}
    refused = httpx.post(f"{server.url}/v1/sessions", json=body)
    assert (refused.status_code, refused.json()["option"]) == (422, "compat")


@pytest.mark.parametrize(
    "action",
    [
        "search[]",
        "search",
        "buy the first one",
        "click[]",
        "click[b000000000]",
        "click[buy now]",
        "click[< prev]",
        "click[wine/red]",
        "click[größe: ½]",
        "click[🙂]",
        "search[a][b]",
        "[" * MAX_ACTION_CHARS,
    ],
)
def test_an_action_that_means_nothing_here_is_a_step_that_changes_nothing(server: ServiceProcess, action: str) -> None:
    (session,) = open_group(server)
    session = stepped(server, session, "search[<c> garden]")
    after = stepped(server, session, action)
    assert (after["info"]["valid_action"], after["reward"], after["terminated"]) == (False, 0.0, False)
    assert where(after) == where(session)


@pytest.mark.parametrize("action", ["", " ", "search[a\nb]", "search[a\x00]", "x" * (MAX_ACTION_CHARS + 1)])
def test_what_is_not_an_action_at_all_is_refused(server: ServiceProcess, action: str) -> None:
    (session,) = open_group(server)
    refused = step(server, session, action)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request")
    assert stepped(server, session, "search[wine]")["step_index"] == 1


def test_a_search_of_10_kb_is_a_search_and_one_of_too_many_words_names_its_error(server: ServiceProcess) -> None:
    (session,) = open_group(server)
    long = stepped(server, session, f"search[{'wine ' * 2048}]")
    assert "Page 1 (Total results: " in long["observation"]
    many = " ".join(f"w{number}" for number in range(1500))
    after = stepped(server, long, f"search[{many}]")
    assert after["info"]["error"].startswith("TooManyClauses")
    assert after["info"]["valid_action"] is True
    assert where(after) == where(long)


@pytest.mark.parametrize("letter", ['"', "\xa0", "×", "|", "'", "&"])
def test_options_with_quotes_and_unicode_are_chosen_and_bought(server: ServiceProcess, letter: str) -> None:
    world = recorded_world()
    number, value = next(
        (number, value)
        for number in range(len(world))
        for values in world.product(number).options.values()
        for value in values
        if letter in value
    )
    product = world.product(number)
    place = list(world.with_query(product.query)).index(number) // 10
    (session,) = open_group(server)
    way = [f"search[<q> {product.query}]", *["click[next >]"] * place, f"click[{product.asin}]"]
    session = stepped(server, session, *way, f"click[{value}]")
    assert session["info"]["valid_action"] is True
    assert value in session["info"]["page"]["options"].values()
    bought = stepped(server, session, "click[buy now]")
    assert (bought["terminated"], bought["info"]["page"]["asin"]) == (True, product.asin)
