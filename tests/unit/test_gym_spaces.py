"""The text spaces of `gagpo.envs`, and infos laid out as gymnasium lays them out."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Text
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import VectorEnv

from gagpo.envs.batching import batched
from gagpo.envs.spaces import MAX_OBSERVATION_CHARS, Line, Prose
from shared.schemas.environment import MAX_ACTION_CHARS, SessionStep


def test_observations_may_be_in_any_script_and_on_many_lines() -> None:
    space = Prose()
    assert isinstance(space, Text)
    for text in ("", "A shelf 1.\n\nYour task", "café, 洗濯機, 🛒", "x" * MAX_OBSERVATION_CHARS):
        assert text in space
    for other in ("x" * (MAX_OBSERVATION_CHARS + 1), 3, None, ["a"]):
        assert other not in space


@pytest.mark.parametrize(
    "action", ["go to shelf 1", "search[café 🛒]", "x" * MAX_ACTION_CHARS, "", " ", "two\nlines", "x" * 20_000, "\x00"]
)
def test_an_action_is_in_the_space_exactly_where_the_server_takes_it(action: str) -> None:
    try:
        SessionStep(session_id="any", action=action, step_index=0)
        taken = True
    except ValueError:
        taken = False
    assert (action in Line()) is taken


def test_samples_are_actions_and_the_same_for_the_same_seed() -> None:
    space, twin = Line(), Line()
    space.seed(5)
    twin.seed(5)
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in samples)
    assert samples == [twin.sample() for _ in range(50)]


def test_spaces_are_equal_to_their_like_alone() -> None:
    assert Prose() == Prose()
    assert Prose() != Prose(10)
    assert Prose(MAX_ACTION_CHARS) != Line()
    assert Line() == Line()


INFOS: list[list[dict[str, Any] | None]] = [
    [{"won": True, "task_id": "a", "actions": ["x"]}, {"won": False, "task_id": "b", "actions": ["x", "y"]}],
    [{"score": 0.5}, {"score": 1.0}, None],
    [{"page": {"kind": "home", "number": 1}}, {"page": {"kind": "item"}}],
    [None, {"final_obs": "the end", "final_info": {"won": True, "steps": 3}, "won": False}],
    [{"steps": 3}, {}],
]


@pytest.mark.parametrize("infos", INFOS)
def test_infos_are_batched_as_gymnasium_does(infos: list[dict[str, Any] | None]) -> None:
    vector: VectorEnv[Any, Any, Any] = VectorEnv()
    vector.num_envs = len(infos)
    expected: dict[str, Any] = {}
    for place, info in enumerate(infos):
        if info is not None:
            expected = vector._add_info(expected, info, place)
    found = batched(infos)
    assert found.keys() == expected.keys()
    assert data_equivalence(dict(sorted(found.items())), dict(sorted(expected.items())), exact=True)


def test_values_of_several_types_keep_their_value() -> None:
    """Where gymnasium would take the first one's type for all."""
    assert batched([{"score": 0}, {"score": 0.5}])["score"].tolist() == [0.0, 0.5]
    assert batched([{"left": 1}, {"left": None}])["left"].tolist() == [1, None]
    assert batched([{"page": {"kind": "home"}}, {"page": None}])["page"].tolist() == [{"kind": "home"}, None]
    assert np.array_equal(batched([{"left": 1}, {}])["_left"], [True, False])
