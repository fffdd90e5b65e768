"""Episodes on the dashboard while they are played: a real job of the whole system but for the policy's weights."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w
from playwright.sync_api import Browser, Locator, Page, expect
from transformers import LlamaForCausalLM

from shared.buffer import JobKeys, connect, decode_group
from shared.prompting import PolicyTokenizer
from shared.trajectory import Episode
from tests.browser import start_chromium, watched_page
from tests.job_service import TrainerUnderTest
from tests.policy_processes import tiny_config
from tests.processes import REPOSITORY, free_port, start_env_server, start_redis, start_service, without_settings
from tests.tokenizers import write_tokenizer
from tests.training_system import ACTIONS, RECIPE, WORDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PICTURES = os.environ.get("GAGPO_SCREENSHOTS")
"""Folder for the documentation's pictures."""

JOB = "wednesday"
DELAY_S = 0.5
"""How long the policy takes for an action."""
DEADLINE_S = 120.0
START_MS = 480_000.0
"""For the first episode: the orchestrator and the training process have to start before."""


@dataclass(frozen=True)
class Live:
    """A trainer service, and everything around it but the orchestrator."""

    folder: Path
    model: Path
    redis_url: str
    env_url: str
    policy_url: str
    orchestrator_port: int
    trainer: TrainerUnderTest

    @property
    def url(self) -> str:
        return self.trainer.process.url

    def submit(self) -> None:
        """A job whose episodes are played three at a time."""
        text = RECIPE.format(model=self.model, staleness=0, steps=100, checkpoint_every=100, transport="file")
        recipe = tomllib.loads(text) | {"evaluation": {"episodes": 0}}
        recipe["rollout"] |= {"groups_per_step": 2, "group_size": 3, "concurrency": 3}
        self.trainer.submit(recipe, JOB).raise_for_status()

    def episode(self, step: int, group: int, member: int) -> Episode:
        """What the buffer holds, once it does."""
        client, give_up = connect(self.redis_url), time.monotonic() + DEADLINE_S
        while time.monotonic() < give_up:
            for _, fields in client.xrange(JobKeys(JOB).groups):
                if (int(fields[b"step"]), int(fields[b"index"])) == (step, group):
                    return decode_group(fields[b"group"]).episodes[member]
            time.sleep(0.2)
        raise AssertionError(f"group {group} of step {step} was not delivered")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder, port = tmp_path_factory.mktemp("live"), free_port()
    tokenizer = PolicyTokenizer(model := _untrained(folder / "model"))
    answers = json.dumps([[*tokenizer.encode(action), 2] for action in ACTIONS])
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        env = running.enter_context(start_env_server(REDIS_URL=redis_url))
        variables = {"ANSWERS": answers, "MODEL": str(model), "DELAY_S": str(DELAY_S)}
        policy = running.enter_context(start_service("tests.random_policy_server", variables))
        variables = {
            "REDIS_URL": redis_url,
            "GAGPO_TRAINER_RUNS": str(folder / "runs"),
            "GAGPO_TRAINER_ENV_URL": env.url,
            "GAGPO_TRAINER_POLICY_URL": policy.url,
            "GAGPO_TRAINER_ORCHESTRATOR_URL": f"http://127.0.0.1:{port}",
            "GAGPO_TRAINER_THREADS": "1",
        }
        trainer = running.enter_context(start_service("services.trainer.server", variables, deadline_s=180))
        under_test = TrainerUnderTest(trainer, trainer.url + "/v1/jobs")
        yield Live(folder, model, redis_url, env.url, policy.url, port, under_test)


def _untrained(folder: Path) -> Path:
    """A tiny policy for the trainer; the one that plays answers at random."""
    LlamaForCausalLM(tiny_config(4 + len(set(WORDS.split())), tied=False)).save_pretrained(folder)
    return write_tokenizer(folder, WORDS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with start_chromium() as browser:
        yield browser


def test_an_episode_grows_turn_by_turn_into_the_one_that_is_trained_on(live: Live, chromium: Browser) -> None:
    with watched_page(chromium) as watched, ExitStack() as running:
        page = watched.page
        page.goto(live.url + "/live")
        expect(page.get_by_text("No job is running")).to_be_visible()
        assert watched.axe() == []
        live.submit()
        expect(page.get_by_text("The orchestrator does not answer")).to_be_visible()
        expect(page.get_by_text(re.compile("Without it no episodes are played"))).to_be_visible()
        running.enter_context(_orchestrator(live))

        rows, turns = page.locator(".live-row"), page.locator("[data-turn]")
        expect(rows.nth(2)).to_be_visible(timeout=START_MS)  # as many as are played at once
        expect(page.get_by_role("switch", name="Follow the newest episode")).to_be_checked()
        rows.first.click()  # the newest
        expect(page.get_by_role("switch", name="Follow the newest episode")).not_to_be_checked()
        expect(page.locator(".live-row[aria-pressed=true]")).to_have_count(1)
        where = page.locator(".live-head p").first.inner_text()
        seen = turns.count()
        for _ in range(2):
            expect(turns).not_to_have_count(seen)
            assert turns.count() > seen, "it grows, and is not drawn anew"
            seen = turns.count()
        expect(page.locator(".turn-end")).to_be_visible()
        assert page.locator(".live-head p").first.inner_text() == where, "it stays in view after its end"
        assert watched.axe() == []
        _check_against_the_group(live, page, where)

        _check_pausing(page, rows)
        page.get_by_role("switch", name="Follow the newest episode").click()
        expect(page.locator(".live-head p").first).not_to_have_text(where)
        assert watched.faults == []


def test_it_fits_a_phone_and_a_page_of_the_job_leads_to_it(live: Live, chromium: Browser) -> None:
    with _orchestrator(live), watched_page(chromium, width=390, height=844, dark=True) as watched:
        page = watched.page
        page.goto(f"{live.url}/runs/{JOB}")
        page.get_by_role("link", name="Watch live").click()
        expect(page).to_have_url(f"{live.url}/live?job={JOB}")
        expect(page.locator("[data-turn]").nth(1)).to_be_visible(timeout=START_MS)
        assert watched.sideways() <= 0
        expect(page.locator(".turn-end")).to_be_visible()
        assert watched.sideways() <= 0
        assert watched.axe() == []
        assert watched.faults == []


def test_a_page_that_is_left_stops_watching(live: Live, chromium: Browser) -> None:
    client, keys = connect(live.redis_url), JobKeys(JOB)
    with watched_page(chromium) as watched:
        page = watched.page
        page.goto(f"{live.url}/live?job={JOB}")
        expect(page.get_by_role("heading", level=1, name="Live")).to_be_visible()
        _wait_until(lambda: client.exists(keys.watched) == 1)
        page.get_by_role("link", name="Health", exact=True).click()
        expect(page.get_by_role("heading", level=1, name="Health")).to_be_visible()
        _wait_until(lambda: client.exists(keys.watched) == 0)
        assert watched.faults == []


def test_a_job_that_is_over_says_so(live: Live, chromium: Browser) -> None:
    with watched_page(chromium) as watched:
        page = watched.page
        with _orchestrator(live):
            page.goto(f"{live.url}/live?job={JOB}")
            expect(page.locator(".live-row .chip", has_text="playing").first).to_be_visible(timeout=START_MS)
            live.trainer.post(f"{JOB}/cancel").raise_for_status()
            expect(page.get_by_text("The job is cancelled")).to_be_visible()
            expect(page.locator(".live-row .chip", has_text="playing")).to_have_count(0)
        assert watched.faults == []


@pytest.mark.skipif(PICTURES is None, reason="GAGPO_SCREENSHOTS names no folder for the documentation's pictures")
def test_picture_for_the_documentation(chromium: Browser, tmp_path: Path) -> None:
    with _alfworld(tmp_path) as url, watched_page(chromium, height=900) as watched:
        page = watched.page
        page.goto(url + "/live")
        expect(page.locator("[data-turn]").nth(4)).to_be_visible(timeout=START_MS)
        page.get_by_role("switch", name="Pause").click()
        page.wait_for_timeout(1000)
        page.screenshot(path=REPOSITORY / str(PICTURES) / "dashboard-live.png")


@contextmanager
def _alfworld(folder: Path) -> Iterator[str]:
    """Training on ALFWorld as it is, but for few episodes at once; the address of its dashboard."""
    recipe = tomllib.loads((REPOSITORY / "configs/alfworld-cpu.toml").read_text())
    recipe["model"]["path"] = str(REPOSITORY / "configs/small-policy")
    recipe["rollout"] |= {"groups_per_step": 4, "group_size": 4, "concurrency": 8}
    recipe["evaluation"]["episodes"] = 0
    file, ports = folder / "recipe.toml", [free_port() for _ in range(4)]
    file.write_text(tomli_w.dumps(recipe))
    flags = ["--trainer-port", "--env-port", "--policy-port", "--orchestrator-port"]
    command = [sys.executable, "-m", "gagpo", "up", str(file), "--folder", str(folder / "run")]
    command += [part for flag, port in zip(flags, ports, strict=True) for part in (flag, str(port))]
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=without_settings(), stdout=log, stderr=log)
    try:
        _wait_until(lambda: "dashboard is at" in (folder / "up.log").read_text(), deadline_s=600)
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _check_against_the_group(live: Live, page: Page, where: str) -> None:
    numbers = re.match(r"training step (\d+) · group (\d+) · episode (\d+) · (maze-\d+)$", where)
    assert numbers is not None, where
    step, group, member = map(int, numbers.groups()[:3])
    recorded = live.episode(step, group, member)
    assert page.locator(".turn-action").all_inner_texts() == [one.action for one in recorded.steps]
    assert page.locator(".turn-observation").all_inner_texts() == [
        *(one.observation for one in recorded.steps),
        recorded.final_observation,
    ]
    assert [_understood(turn) for turn in page.locator("[data-turn]").all()] == [
        one.valid_action for one in recorded.steps
    ]
    ending = "won" if recorded.won else "cut off: the step limit"
    expect(page.locator(".turn-end")).to_have_text(re.compile(f"^{ending}, after {len(recorded.steps)} turns?, score"))


def _check_pausing(page: Page, rows: Locator) -> None:
    page.get_by_role("switch", name="Pause").click()
    page.wait_for_timeout(500)
    before = rows.all_inner_texts()
    page.wait_for_timeout(3000)
    assert rows.all_inner_texts() == before
    page.get_by_role("switch", name="Pause").click()
    expect(rows.first).not_to_have_text(before[0])


def _understood(turn: Locator) -> bool:
    return turn.get_by_text("not understood").count() == 0


def _wait_until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    give_up = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.2)


@contextmanager
def _orchestrator(live: Live) -> Iterator[None]:
    """One that follows jobs, where the trainer service looks for it."""
    command = [sys.executable, "-m", "services.orchestrator", "--follow", "--port", str(live.orchestrator_port)]
    command += ["--env-url", live.env_url, "--policy-url", live.policy_url, "--redis-url", live.redis_url]
    with (live.folder / "orchestrator.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=without_settings(), stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)
