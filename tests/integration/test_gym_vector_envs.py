"""`gymnasium.make_vec("gagpo/…")` against a real env server, and next to gymnasium's own vector of single ones."""

import random
from collections.abc import Iterator
from typing import Any

import gymnasium
import httpx
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gagpo.environment_client import EnvironmentServerError
from gagpo.envs import TextEnv, TextVectorEnv
from tests.cutting_proxy import cutting_proxy
from tests.processes import start_env_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_env_server() as server:
        yield server.url


@pytest.mark.filterwarnings("error")
def test_it_is_made_by_gymnasium_and_declares_its_mode(url: str) -> None:
    env = gymnasium.make_vec("gagpo/Text-v0", num_envs=3, environment="maze", url=url)
    assert isinstance(env, TextVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, info = env.reset(seed=1)
    assert observations in env.observation_space
    assert env.action_space.sample() in env.action_space
    assert [len(actions) for actions in info["admissible_actions"]] == [2, 2, 2]
    env.close()


def same(found: Any, expected: Any) -> bool:
    """Equal data, in whatever order the infos' keys come."""
    return data_equivalence(_sorted(found), _sorted(expected), exact=True)


def _sorted(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _sorted(data[key]) for key in sorted(data)}
    return tuple(map(_sorted, data)) if isinstance(data, tuple) else data


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_it_does_what_gymnasiums_vector_of_single_ones_does(url: str, mode: AutoresetMode) -> None:
    """Three mazes, wandered mostly to the exit until several episodes have been won and several cut at the limit."""
    vector = TextVectorEnv("maze", url, 3, max_steps=12, autoreset_mode=mode)
    singles = SyncVectorEnv([lambda: TextEnv("maze", url, max_steps=12)] * 3, autoreset_mode=mode)
    chance, ends = random.Random(4), np.zeros(2, int)
    found: Any = vector.reset(seed=11)
    assert same(found, singles.reset(seed=11))
    for turn in range(45):
        offered = found[-1]["admissible_actions"]
        actions = [chance.choice(["fly", *["north"] * 9]) if len(actions) == 2 else "take coin" for actions in offered]
        found, expected = vector.step(actions), singles.step(actions)
        assert same(found, expected), f"turn {turn}"
        ends += [found[2].sum(), found[3].sum()]
    assert same(vector.reset(), singles.reset()), "the tasks drawn without a seed"
    vector.close()
    singles.close()
    assert (ends > 2).all(), "won, and cut at the limit"


def test_without_autoreset_a_mask_says_which_begin_anew(url: str) -> None:
    vector = TextVectorEnv("maze", url, 3, max_steps=2, autoreset_mode="Disabled")
    singles = SyncVectorEnv([lambda: TextEnv("maze", url, max_steps=2)] * 3, autoreset_mode="Disabled")
    mask = np.array([True, False, True])
    for env in (vector, singles):
        env.reset(seed=5)
        env.step(["north"] * 3)
        env.step(["north"] * 3)
    with pytest.raises(ResetNeeded, match=r"\[0, 1, 2\] have ended"):
        vector.step(["north"] * 3)
    untouched = vector.session_ids[1]
    found, expected = [env.reset(seed=9, options={"reset_mask": mask}) for env in (vector, singles)]
    assert same(found, expected)
    assert vector.session_ids[1] == untouched
    for env in (vector, singles):
        env.reset()
        env.close()


@pytest.mark.parametrize("mask", [np.zeros(3, bool), np.ones(2, bool), np.ones(3), "all"])
def test_a_mask_that_is_none_is_refused(url: str, mask: object) -> None:
    vector = TextVectorEnv("maze", url, 3)
    vector.reset()
    with pytest.raises(ValueError, match=r"options\.reset_mask: .* 3 times true or false"):
        vector.reset(options={"reset_mask": mask})
    vector.close()


def test_a_step_is_one_request_and_a_group_one_opening(url: str) -> None:
    with cutting_proxy(url, []) as proxy:
        vector = TextVectorEnv("maze", proxy.url, 16)
        vector.reset(options={"task_id": "maze-20"})
        for _ in range(5):
            vector.step(["north"] * 16)
        asked = [chunk.split(" HTTP")[0] for chunk in proxy.requests if " HTTP/1.1" in chunk]
        assert asked == ["GET /v1/environments", "POST /v1/sessions", *["POST /v1/steps"] * 5]
        vector.close()


def test_answers_that_are_lost_are_asked_for_again(url: str) -> None:
    with cutting_proxy(url, [1_000_000, 2_000, 400]) as proxy:
        vector = TextVectorEnv("maze", proxy.url, 4, patience_s=30)
        vector.reset(options={"task_id": "maze-20"})
        for turn in range(1, 5):
            observations, _, _, _, info = vector.step(["north"] * 4)
            assert info["step_index"].tolist() == [turn] * 4
            assert all(f"Room {turn} of 20." in text for text in observations)
        assert not proxy.cuts
        vector.close()


def test_after_a_step_that_failed_the_same_call_takes_no_step_twice(url: str) -> None:
    vector = TextVectorEnv("maze", url, 3)
    vector.reset(options={"task_id": "maze-20"})
    with pytest.raises(EnvironmentServerError, match="collapses"):
        vector.step(["north", "raise", "north"])
    observations, *_ = vector.step(["north"] * 3)
    assert all("Room 1 of 20." in text for text in observations)
    vector.close()


def test_sessions_are_deleted_when_episodes_end_and_on_close(url: str) -> None:
    vector = TextVectorEnv("maze", url, 2, max_steps=1)
    vector.reset(seed=1)
    first = vector.session_ids
    vector.step(["north"] * 2)
    vector.step(["north"] * 2)
    second = vector.session_ids
    vector.close()
    assert {httpx.get(f"{url}/v1/sessions/{one}").status_code for one in [*first, *second]} == {404}
    assert not set(first) & set(second)


def test_what_is_wrong_is_said(url: str) -> None:
    with pytest.raises(ValueError, match="num_envs = 0"):
        TextVectorEnv("maze", url, 0)
    vector = TextVectorEnv("maze", url, 2, render_mode="ansi")
    with pytest.raises(ResetNeeded):
        vector.step(["north"] * 2)
    with pytest.raises(ValueError, match="3 seeds for 2"):
        vector.reset(seed=[1, 2, 3])
    vector.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="1 for 2"):
        vector.step(["north"])
    observations = vector.step(["north", "south"])[0]
    assert vector.render() == (f"> north\n{observations[0]}", f"> south\n{observations[1]}")
    vector.close()
