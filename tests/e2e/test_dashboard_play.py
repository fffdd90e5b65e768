"""Playing by hand in a browser: real games on real env servers, and what the page says when one is in trouble."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from shared.schemas.environment import MAX_ACTION_CHARS, SessionState
from tests.browser import start_chromium, watched_page
from tests.data_paths import real_data
from tests.processes import (
    MAZE,
    REPOSITORY,
    ServiceProcess,
    free_port,
    start_env_server,
    start_redis,
    start_service,
)

PICTURES = os.environ.get("GAGPO_SCREENSHOTS")
"""Folder for the documentation's pictures."""

PHONE = 390
ROOM = "/play?environment=alfworld&split=valid_unseen&index=3"
SHOP = "/play?environment=webshop&task=human-0"
MAZE_3 = "/play?environment=maze&task=maze-3"


@dataclass(frozen=True)
class Played:
    """A trainer service with the env servers that its pages play on."""

    url: str
    games: ServiceProcess
    """Serves ALFWorld and WebShop."""
    mazes: ServiceProcess
    """Serves the maze: one session at once, and steps of a second at most."""

    def open(self, page: Page, address: str) -> None:
        """Go to a page that opens a task, and wait for its game."""
        page.goto(self.url + address)
        expect(_fact(page, "Steps")).to_have_text(re.compile("^0 of"))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    games = {
        "GAGPO_ENV_ENVIRONMENTS": "{}",
        "GAGPO_ENV_SERVE": '["alfworld", "webshop"]',
        "GAGPO_ENV_WORKERS": "1",
        "ALFWORLD_DATA": str(real_data("alfworld")),
        "WEBSHOP_DATA": str(real_data("webshop")),
    }
    mazes = {"GAGPO_ENV_WORKERS": "1", "GAGPO_ENV_MAX_SESSIONS": "1", "GAGPO_ENV_STEP_DEADLINE_S": "1"}
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        both = [
            running.enter_context(start_service("services.env_server", variables, deadline_s=180))
            for variables in (games, MAZE | mazes)
        ]
        service = running.enter_context(_trainer(redis_url, tmp_path_factory.mktemp("runs"), *both))
        yield Played(service.url, *both)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with start_chromium() as browser:
        yield browser


def test_alfworld_is_won_by_the_experts_hints_alone(played: Played, chromium: Browser) -> None:
    with watched_page(chromium) as watched:
        page = watched.page
        played.open(page, ROOM)
        optimal = _state(played.games, page).info["optimal_steps"]
        assert isinstance(optimal, int)
        for step in range(optimal):
            state = _state(played.games, page)
            assert (state.step_index, state.task_id) == (
                step,
                page.locator(".play-now > p").inner_text().split(" · ")[0],
            )
            assert page.locator(".play-text").inner_text() == state.observation
            shown = page.locator(".play-choice .play-action")
            assert sorted(_action(page, place) for place in range(shown.count())) == sorted(state.admissible_actions)
            hint = page.locator(".play-hint [role=status]")
            expect(hint).not_to_be_visible()
            page.get_by_role("button", name="Show the expert's hint").click()
            expect(hint).to_have_text(f"It would: {state.info['expert_action']}")
            if step == 0:
                assert watched.axe() == []
            page.get_by_role("button", name=str(state.info["expert_action"]), exact=True).click()
            expect(_fact(page, "Steps")).to_have_text(f"{step + 1} of 50")
        expect(page.locator(".play-end")).to_contain_text(f"Won in {optimal} steps")
        expect(page.locator(".play-end")).to_contain_text(f"The expert needs {optimal}.")
        expect(_fact(page, "Return")).to_have_text("1")
        expect(page.locator(".turn[data-turn]")).to_have_count(optimal)
        _wait_until_gone(played.games, _session(page))
        assert watched.axe() == []
        assert watched.faults == []


def test_what_is_typed_is_a_step_and_the_keyboard_stays(played: Played, chromium: Browser) -> None:
    with watched_page(chromium) as watched:
        page = watched.page
        played.open(page, ROOM)
        field, turns = page.get_by_label("Action", exact=True), page.locator(".turn[data-turn]")
        field.fill("cabinet 5")
        expect(page.locator(".play-choice .play-action:visible")).to_have_count(1)
        field.fill("dance with the fridge")
        expect(page.get_by_text("None of the offered actions has these words")).to_be_visible()
        expect(page.get_by_role("button", name="go to cabinet 2", exact=True)).to_be_visible()
        field.press("Enter")
        expect(_fact(page, "Not understood")).to_have_text("1")
        expect(turns.first).to_contain_text("dance with the fridge")
        expect(turns.first).to_contain_text("not understood")
        expect(turns.first).to_contain_text("Nothing happens.")
        expect(field).to_be_focused()
        expect(field).to_have_value("")
        page.keyboard.type("inventory")
        page.keyboard.press("Enter")
        expect(turns).to_have_count(2)
        expect(_fact(page, "Not understood")).to_have_text("1")
        page.get_by_role("button", name="go to cabinet 2", exact=True).focus()
        page.keyboard.press("Enter")
        expect(turns).to_have_count(3)
        expect(field).to_be_focused()
        state = _state(played.games, page)
        assert (state.step_index, state.history_length) == (3, 3)
        assert page.locator(".play-text").inner_text() == state.observation

        field.fill("x" * (MAX_ACTION_CHARS + 1))
        field.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text(f"at most {MAX_ACTION_CHARS} characters")
        assert _state(played.games, page).step_index == 3
        before = state.session_id
        page.get_by_role("button", name="Start over").click()
        expect(_fact(page, "Steps")).to_have_text("0 of 50")
        expect(turns).to_have_count(0)
        anew = _state(played.games, page)
        assert anew.task_id == state.task_id
        assert httpx.get(f"{played.games.url}/v1/sessions/{before}").status_code == 404
        assert watched.faults == []


def test_webshop_is_searched_and_bought_from_by_its_page(played: Played, chromium: Browser) -> None:
    with watched_page(chromium) as watched:
        page = watched.page
        played.open(page, SHOP)
        search = page.get_by_label("Search: query")
        search.fill("oral hygiene")
        search.press("Enter")
        expect(_fact(page, "Steps")).to_have_text("1 of 15")
        expect(search).not_to_be_visible()
        assert watched.axe() == []
        state = _state(played.games, page)
        page.get_by_text("As a policy reads it").click()
        assert page.get_by_label("The observation as text").inner_text().strip() == state.observation.strip()
        actions = page.locator(".play-seen .play-action").all_inner_texts()
        assert [f"click[{text.lower()}]" for text in actions] == state.admissible_actions
        for step, button in enumerate(("B09MW563KN", "blue", "Buy Now"), 2):
            page.get_by_role("button", name=button, exact=True).click()
            expect(_fact(page, "Steps")).to_have_text(f"{step} of 15")
            if button == "blue":
                chosen = page.get_by_role("button", name="blue", exact=True)
                expect(chosen).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".play-end")).to_contain_text("Won in 4 steps")
        expect(page.locator(".play-end")).to_contain_text("Score 100%. The expert needs 4.")
        assert watched.axe() == []
        assert watched.faults == []


def test_tasks_are_chosen_drawn_and_passed_on_by_the_address(played: Played, chromium: Browser) -> None:
    with watched_page(chromium) as watched:
        page = watched.page
        page.goto(f"{played.url}/play")
        expect(page.get_by_text("No task is open")).to_be_visible()
        _choose(page, "Environment", "webshop")
        _choose(page, "Split", "human_test (2 tasks)")
        field = page.get_by_label(re.compile("^Task: 0 to 1"))
        field.fill("1")
        page.get_by_role("button", name="Play", exact=True).click()
        page.wait_for_url("**/play?environment=webshop&split=human_test&index=1")
        expect(_fact(page, "Steps")).to_have_text("0 of 15")
        assert _state(played.games, page).task_id == "human-1"
        page.get_by_role("button", name="Another task").click()
        page.wait_for_url("**/play?environment=webshop&split=human_test&index=0")
        expect(page.get_by_text("human-0", exact=False).first).to_be_visible()
        expect(field).to_have_value("0")
        field.fill("synthetic-7")
        field.press("Enter")
        page.wait_for_url("**/play?environment=webshop&task=synthetic-7")
        expect(page.get_by_text("synthetic-7", exact=False).first).to_be_visible()
        field.fill("synthetic-7000000")
        field.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("There is no such task")
        page.goto(f"{played.url}/play?environment=chess")
        expect(page.get_by_role("alert")).to_contain_text("environment = 'chess': the env server has alfworld, webshop")
        assert watched.faults == []


def test_troubles_are_told_with_the_way_out(played: Played, chromium: Browser) -> None:
    with watched_page(chromium) as watched, httpx.Client(base_url=played.mazes.url) as sessions:
        page, alert = watched.page, watched.page.locator(".play-trouble [role=alert]")
        other = sessions.post("/v1/sessions", json={"environment": "maze", "task_id": "maze-4"}).json()["sessions"][0]
        page.goto(played.url + MAZE_3)
        expect(alert).to_contain_text("The server is full")
        expect(alert).to_contain_text("It asks to wait 5 s.")
        assert watched.axe() == []
        sessions.delete(f"/v1/sessions/{other['session_id']}").raise_for_status()
        alert.get_by_role("button", name="Try again").click()
        expect(_fact(page, "Steps")).to_have_text("0 of 30")
        expect(alert).to_have_count(0)
        expect(page.get_by_role("button", name="Show the expert's hint")).not_to_be_visible()

        field = page.get_by_label("Action", exact=True)
        field.fill("sleep 20")
        field.press("Enter")
        expect(alert).to_contain_text("The environment took too long")
        expect(_fact(page, "Steps")).to_have_text("0 of 30")
        page.get_by_role("button", name="north", exact=True).click()
        expect(_fact(page, "Steps")).to_have_text("1 of 30")
        expect(alert).to_have_count(0)

        sessions.delete(f"/v1/sessions/{_session(page)}").raise_for_status()
        page.get_by_role("button", name="north", exact=True).click()
        expect(alert).to_contain_text("The env server has forgotten this episode")
        alert.get_by_role("button", name="Start over").click()
        expect(_fact(page, "Steps")).to_have_text("0 of 30")
        expect(alert).to_have_count(0)

        left = _session(page)
        assert sessions.get(f"/v1/sessions/{left}").status_code == 200
        page.get_by_role("link", name="Runs", exact=True).click()
        _wait_until_gone(played.mazes, left, within_s=20)
        assert watched.faults == []


@pytest.mark.slow
def test_a_closed_tab_lets_go_of_its_session(played: Played, chromium: Browser) -> None:
    with watched_page(chromium) as watched:
        played.open(watched.page, MAZE_3)
        session = _session(watched.page)
    assert httpx.get(f"{played.mazes.url}/v1/sessions/{session}").status_code == 200
    _wait_until_gone(played.mazes, session)


@pytest.mark.slow
def test_an_env_server_that_is_away_is_told_with_the_command_that_starts_it(chromium: Browser, tmp_path: Path) -> None:
    with (
        start_redis() as redis_url,
        start_env_server(GAGPO_ENV_WORKERS="1") as env,
        _trainer(redis_url, tmp_path / "runs", env) as service,
        watched_page(chromium) as watched,
    ):
        page, alert = watched.page, watched.page.locator(".play-trouble [role=alert]")
        page.goto(service.url + MAZE_3)
        expect(_fact(page, "Steps")).to_have_text("0 of 30")
        env.stop()
        page.get_by_role("button", name="north", exact=True).click()
        port = env.url.rpartition(":")[2]
        expect(alert).to_contain_text("The env server does not answer")
        expect(alert).to_contain_text(f"python -m services.env_server --port {port}")
        expect(alert.get_by_role("button", name="Try again")).to_be_visible()
        page.goto(f"{service.url}/play")
        expect(alert).to_contain_text("The env server does not answer")
        assert watched.axe() == []
        with start_service("services.env_server", MAZE, port=int(port)):
            alert.get_by_role("button", name="Try again").click()
            expect(page.get_by_text("No task is open")).to_be_visible()
        assert watched.faults == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_a_phone_and_can_be_read(played: Played, chromium: Browser, dark: bool) -> None:
    with watched_page(chromium, width=PHONE, height=844, dark=dark) as watched:
        page = watched.page
        for address in (ROOM, SHOP):
            played.open(page, address)
            page.get_by_role("button", name="Do as the expert does").click()
            expect(_fact(page, "Steps")).to_have_text(re.compile("^1 of"))
            assert watched.sideways() <= 0, address
            assert watched.axe() == [], address
        assert watched.faults == []


@pytest.mark.skipif(PICTURES is None, reason="GAGPO_SCREENSHOTS names no folder for the documentation's pictures")
def test_pictures_for_the_documentation(played: Played, chromium: Browser) -> None:
    with watched_page(chromium, height=980) as watched:
        page = watched.page
        played.open(page, ROOM)
        for step in range(1, 5):
            page.get_by_role("button", name="Do as the expert does").click()
            expect(_fact(page, "Steps")).to_have_text(f"{step} of 50")
        page.get_by_role("button", name="Show the expert's hint").click()
        expect(page.locator(".play-hint [role=status]")).to_be_visible()
        page.wait_for_timeout(1000)
        page.screenshot(path=REPOSITORY / str(PICTURES) / "dashboard-play.png")


def _trainer(redis_url: str, runs: Path, *env: ServiceProcess) -> AbstractContextManager[ServiceProcess]:
    variables = {
        "REDIS_URL": redis_url,
        "GAGPO_TRAINER_RUNS": str(runs),
        "GAGPO_TRAINER_ENV_URL": ",".join(server.url for server in env),
        "GAGPO_TRAINER_POLICY_URL": f"http://127.0.0.1:{free_port()}",
    }
    return start_service("services.trainer.server", variables, deadline_s=180)


def _fact(page: Page, name: str) -> Locator:
    """What stands under that name in the game's line of numbers."""
    return page.locator(".play-standing .facts > div").filter(has_text=name).locator("dd")


def _action(page: Page, place: int) -> str:
    """The action of a button, whose group may say how it begins."""
    button = page.locator(".play-choice .play-action").nth(place)
    return button.get_attribute("aria-label") or button.inner_text()


def _session(page: Page) -> str:
    return page.locator(".play-turns > p").inner_text().split()[1]


def _state(server: ServiceProcess, page: Page) -> SessionState:
    """The page's session, as the env server has it."""
    answer = httpx.get(f"{server.url}/v1/sessions/{_session(page)}", timeout=30).raise_for_status()
    return SessionState.model_validate_json(answer.content)


def _wait_until_gone(server: ServiceProcess, session: str, within_s: float = 90) -> None:
    give_up = time.monotonic() + within_s
    while httpx.get(f"{server.url}/v1/sessions/{session}", timeout=30).status_code != 404:
        assert time.monotonic() < give_up, f"session {session} is still open"
        time.sleep(0.2)


def _choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option").filter(has_text=option).first.click()
