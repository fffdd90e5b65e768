"""The credit viewer on a run of the whole system: its numbers are those that the groups in Redis give, by hand.

Nothing of the trainer computes what is expected here: the equations of docs/gagpo.md stand below, for one group at a
time, and ratios are of a plain Transformers model with the weights that the training step began with.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from playwright.sync_api import Browser, Locator, Page, expect
from transformers import AutoModelForCausalLM

from shared.prompting import PolicyTokenizer
from shared.trajectory import EpisodeEnd, Group, Step
from tests.browser import start_chromium, watched_page
from tests.live_run import EPISODES, GROUPS, JOB, LiveRun, Parts, start_live_run, start_parts
from tests.training_system import MazeSystem, one_torch_thread

GAMMA, LAMBDA, CLIP = 0.95, 0.8, 0.2
SUCCESS, PENALTY, LEAST_SPREAD = 10.0, 0.1, 0.5

Floats = NDArray[np.float64]

pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True)
class Credit:
    """What one step is expected to show."""

    episode: int
    turn: int
    step: Step
    reward: float
    returns: float
    value: float
    delta: float
    raw: float
    advantage: float
    ratio: float | None
    """None where the step was not trained on."""

    @property
    def at(self) -> str:
        """Its place, as the page's cells have it."""
        return f"{self.episode}.{self.turn}"

    @property
    def clipped(self) -> bool:
        """Whether the surrogate is flat there."""
        if self.ratio is None:
            return False
        return self.ratio > 1 + CLIP if self.advantage > 0 else self.ratio < 1 - CLIP

    def numbers(self) -> dict[str, float]:
        """By the names of the table's columns."""
        return {
            "rewards": self.reward,
            "returns": self.returns,
            "values": self.value,
            "deltas": self.delta,
            "raw": self.raw,
            "advantages": self.advantage,
        }


@pytest.fixture(scope="module", params=["random", pytest.param("vllm", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    folder = tmp_path_factory.mktemp("live")
    if request.param == "vllm":
        system: MazeSystem = request.getfixturevalue("maze_system")
        parts = Parts(system.model, system.redis_url, system.policy.url)
        with start_live_run(parts, folder) as started:
            yield started
    else:
        with start_parts(folder) as parts, start_live_run(parts, folder) as started:
            yield started


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with start_chromium() as browser:
        yield browser


def test_every_number_is_what_the_groups_in_redis_give(run: LiveRun, chromium: Browser, tmp_path: Path) -> None:
    assert sorted(run.groups) == list(range(GROUPS))
    expected = {index: _credit_of(group, run.weights) for index, group in run.groups.items()}
    steps = [one for group in expected.values() for one in group]
    assert any(one.reward > 0 for one in steps), "somebody found the way out"
    assert {one.step.valid_action for one in steps} == {True, False}
    with watched_page(chromium) as watched:
        page = watched.page
        for index, credit in expected.items():
            page.goto(f"{run.url}/credit?run={JOB}&step={run.step}&group={index}")
            cells = page.locator(".credit-grid td")
            expect(cells).to_have_count(len(credit))
            assert cells.evaluate_all("cells => cells.map(cell => cell.dataset.at)") == [one.at for one in credit]
            for text, one in zip(cells.all_inner_texts(), credit, strict=True):
                assert _number(text) == pytest.approx(one.advantage, abs=0.05 + 1e-9), one.at
            _check_table(page, tmp_path / f"{index}.csv", credit)
        assert watched.axe() == []
        assert watched.faults == []


def test_an_open_step_shows_its_numbers_and_its_siblings_returns(run: LiveRun, chromium: Browser) -> None:
    group = max(run.groups.values(), key=lambda one: sum(episode.won for episode in one.episodes))
    credit, tokenizer = _credit_of(group, run.weights), PolicyTokenizer(run.model)
    with watched_page(chromium) as watched:
        page = watched.page
        page.goto(f"{run.url}/credit?run={JOB}&step={run.step}&group={group.index}")
        page.wait_for_function("window.did_handshake")
        panel = page.get_by_label("The open step")
        for one in _telling(credit):
            page.locator(f'[data-at="{one.at}"]').click()
            title = panel.get_by_role("heading", level=2)
            expect(title).to_contain_text(f"Episode {one.episode}, step {one.turn} of")
            _check_panel(panel, one)
            read = tokenizer.decode(one.step.prompt_token_ids.tolist(), special=True)
            assert panel.get_by_label("Prompt").inner_text().split() == read.split()
            _check_siblings(page, panel, one, credit)
        assert watched.axe() == []
        assert watched.faults == []


def _credit_of(group: Group, weights: Path) -> list[Credit]:
    """The group's steps, episode by episode."""
    places = [(number, turn, step) for number, one in enumerate(group.episodes) for turn, step in enumerate(one.steps)]
    columns = _equations(group)
    advantages = columns[-1]
    ratios = _ratios(group, weights) if np.abs(advantages).max() > 1e-9 else [None] * len(places)
    rows = zip(places, zip(*(column.tolist() for column in columns), strict=True), ratios, strict=True)
    return [Credit(*place, *numbers, ratio) for place, numbers, ratio in rows]


def _equations(group: Group) -> list[Floats]:
    """r, G, V, δ, A and Â of all S steps, each of shape (S,)."""
    assert len(group.episodes) == EPISODES
    # Behind the last step nothing is worth anything, whichever way these end.
    assert {episode.end for episode in group.episodes} <= {EpisodeEnd.TERMINATED, EpisodeEnd.STEP_LIMIT}
    visits: dict[str, list[float]] = {}
    r, g, v, d, a = [], [], [], [], []
    for episode in group.episodes:
        r.append(np.array([SUCCESS * step.reward - (0 if step.valid_action else PENALTY) for step in episode.steps]))
        g.append(_discounted(r[-1], GAMMA))
        for step, return_ in zip(episode.steps, g[-1].tolist(), strict=True):
            visits.setdefault(step.state_key, []).append(return_)
    for place, episode in enumerate(group.episodes):
        worth = np.array([*(np.mean(visits[step.state_key]) for step in episode.steps), 0.0])
        v.append(worth[:-1])
        d.append(r[place] + GAMMA * worth[1:] - worth[:-1])
        a.append(_discounted(d[-1], GAMMA * LAMBDA))
    columns = [np.concatenate(column) for column in (r, g, v, d, a)]
    raw = columns[-1]
    return [*columns, (raw - raw.mean()) / max(raw.std(), LEAST_SPREAD)]


def _discounted(numbers: Floats, factor: float) -> Floats:
    """Of each place, the sum of the numbers from there on, the n-th after it times factorⁿ."""
    places = range(len(numbers))
    return np.array([sum(factor ** (after - at) * numbers[after] for after in places[at:]) for at in places])


@one_torch_thread()
def _ratios(group: Group, weights: Path) -> list[float]:
    """ρ of every step: π with these weights over the probability that the policy server told."""
    model, found = AutoModelForCausalLM.from_pretrained(weights), []
    for step in (step for episode in group.episodes for step in episode.steps):
        prompt, tokens = (torch.from_numpy(ids.astype(np.int64)) for ids in (step.prompt_token_ids, step.token_ids))
        with torch.inference_mode():
            logits = model(input_ids=torch.cat([prompt, tokens]).unsqueeze(0)).logits[0]
        logprobs = logits[len(prompt) - 1 : -1].log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        found.append(float(np.exp((logprobs.numpy() - step.logprobs).mean())))
    return found


def _telling(credit: list[Credit]) -> list[Credit]:
    """A few steps that differ: in reward, siblings, sign, clip and place."""
    states = [one.step.state_key for one in credit]
    traits: list[Callable[[Credit], bool]] = [
        lambda one: one.reward > 0,
        lambda one: one.clipped,
        lambda one: one.advantage < 0 and states.count(one.step.state_key) > 2,
        lambda one: states.count(one.step.state_key) == 1,
        lambda one: not one.step.valid_action,
    ]
    return list(dict.fromkeys(next(filter(trait, credit), credit[0]) for trait in traits))


def _check_table(page: Page, file: Path, credit: list[Credit]) -> None:
    """The download has every number unrounded."""
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV: download the group").click()
    download.value.save_as(file)
    with file.open() as lines:
        table = list(csv.DictReader(lines))
    assert [(line["episode"], line["step"], line["action"], line["state_key"]) for line in table] == [
        (str(one.episode), str(one.turn), one.step.action, one.step.state_key) for one in credit
    ]
    for line, one in zip(table, credit, strict=True):
        for name, number in one.numbers().items():
            assert float(line[name]) == pytest.approx(number, rel=1e-9, abs=1e-9), (one.at, name)
        if one.ratio is None:
            assert line["ratios"] == "nan"
        else:
            assert float(line["ratios"]) == pytest.approx(one.ratio, rel=1e-4), one.at
        assert line["clipped"] == str(one.clipped), one.at


def _check_panel(panel: Locator, one: Credit) -> None:
    names, values = panel.locator("dt").all_inner_texts(), panel.locator("dd").all_inner_texts()
    shown = dict(zip(names, values, strict=True))
    for name, number in {
        "reward r": one.reward,
        "return G": one.returns,
        "value V(s)": one.value,
        "δ": one.delta,
        "advantage A": one.raw,
        "normalised Â": one.advantage,
    }.items():
        assert _number(shown[name]) == pytest.approx(number, abs=0.005 + 1e-9), (one.at, name)
    if one.ratio is None:
        assert (shown["ratio ρ"], shown["clipped"]) == ("not trained on", "–")
    else:
        assert _number(shown["ratio ρ"]) == pytest.approx(one.ratio, abs=0.0005 + 1e-4)
        assert shown["clipped"] == ("yes" if one.clipped else "no")
    assert panel.locator(".credit-action").inner_text() == one.step.action


def _check_siblings(page: Page, panel: Locator, one: Credit, credit: list[Credit]) -> None:
    there = [other for other in credit if other.step.state_key == one.step.state_key]
    siblings = [other for other in there if other is not one]
    marked = page.locator(".credit-grid td.sibling").evaluate_all("cells => cells.map(cell => cell.dataset.at)")
    assert marked == [other.at for other in siblings]
    lines = panel.locator("li .credit-sibling")
    if not siblings:
        expect(panel).to_contain_text("no other step was here")
        return
    spots = lines.locator("> :nth-child(1)").all_inner_texts()
    returns = lines.locator("> :nth-child(3)").all_inner_texts()
    advantages = lines.locator("> :nth-child(4)").all_inner_texts()
    assert sorted(spot.replace(" · ", ".") for spot in spots) == sorted(other.at for other in there)
    by_place = {other.at: other for other in there}
    for spot, g, advantage in zip(spots, returns, advantages, strict=True):
        other = by_place[spot.replace(" · ", ".")]
        assert _number(g) == pytest.approx(other.returns, abs=0.005 + 1e-9), spot
        assert _number(advantage) == pytest.approx(other.advantage, abs=0.005 + 1e-9), spot
    assert [_number(g) for g in returns] == sorted(map(_number, returns), reverse=True), "the best return first"


def _number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace("−", "-").replace("+", ""))
