"""The family and its episodes: options, info, state keys, splits, draws, and that nothing a policy says breaks them."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.env_server.environments.base import InvalidOptionError, UnknownSplitError, UnknownTaskError
from services.env_server.environments.webshop.environment import WebshopEnvironment, WebshopFamily
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.options import OPTIONS
from shared.schemas.environment import StateKeyKind
from tests.webshop_world import recorded_episodes, recorded_world

KINDS = list(StateKeyKind)


@pytest.fixture(scope="module")
def family() -> WebshopFamily:
    return WebshopFamily(recorded_world())


def opened(family: WebshopFamily, task_id: str = "synthetic-1205", **options: Any) -> WebshopEnvironment:
    environment = family.open(task_id, options)
    environment.reset()
    return environment


def bought(family: WebshopFamily, episode: dict[str, Any], **options: Any) -> Any:
    """The outcome of a recorded episode's first purchase."""
    environment = opened(family, f"{episode['goal_set']}-{episode['goal_idx']}", **options)
    for step in episode["steps"]:
        outcome = environment.step(step["action"])
        if outcome.terminated:
            return outcome
    raise AssertionError("nothing was bought")


def ended(reward: Any) -> dict[str, Any]:
    """A recorded episode whose first purchase was paid so."""
    return next(
        e
        for e in recorded_episodes()
        if e["policy"] == "heuristic" and any(s.get("done") and reward(s["reward"]) for s in e["steps"])
    )


def test_the_literatures_cut_makes_the_splits(family: WebshopFamily) -> None:
    assert family.describe().splits == {
        "synthetic_train": 5410,
        "synthetic_valid": 1000,
        "synthetic_test": 500,
        "human_train": 9,
        "human_valid": 2,
        "human_test": 2,
    }
    assert list(family.tasks("synthetic_test"))[:2] == ["synthetic-0", "synthetic-1"]
    assert family.tasks("synthetic_valid")[0] == "synthetic-500"
    assert family.tasks("synthetic_train")[-1] == "synthetic-6909"
    assert list(family.tasks("human_test")) == ["human-0", "human-1"]
    with pytest.raises(UnknownSplitError, match=r"train.*synthetic_train"):
        family.tasks("train")


@pytest.mark.parametrize("task_id", ["synthetic-6910", "human-13", "human--1", "synthetic-01", "robot-1", "", "9"])
def test_a_task_that_does_not_exist_is_named(family: WebshopFamily, task_id: str) -> None:
    with pytest.raises(UnknownTaskError, match="synthetic-0 to synthetic-6909 and human-0 to human-12"):
        family.open(task_id, {})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("observation_mode", "pdf"),
        ("reward", 10),
        ("compat", True),
        ("expert", "yes"),
        ("num_prev_obs", -1),
        ("num_prev_obs", 11),
        ("num_prev_actions", 1.5),
        ("expert_style", "lazy"),
        ("expert_haste", 1.01),
        ("expert_haste", True),
        ("expert_seed", -1),
        ("goal_style", "human"),
    ],
)
def test_a_bad_option_is_named(family: WebshopFamily, option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        family.open("human-0", {option: value})
    assert refused.value.option == option


def test_the_options_described_are_those_taken_at_their_defaults(family: WebshopFamily) -> None:
    described = {option.name: option.default for option in family.describe().options}
    assert family.open("human-0", described).reset() == family.open("human-0", {}).reset()
    assert len(described) == len(OPTIONS) == 10


def test_info_tells_the_task_the_page_and_what_can_be_done(family: WebshopFamily) -> None:
    environment = opened(family, "human-0")
    outcome = environment.step("search[<c> beauty]")
    info = outcome.observation.info
    assert (info["task_type"], info["won"], info["has_search_bar"]) == ("human", False, False)
    assert info["goal"] == recorded_world().goals(GoalKind.HUMAN).goal(0).instruction
    assert info["url"] == "http://127.0.0.1:3000/search_results/0/<c>+beauty/1"
    assert info["page"] == {"kind": "search_results", "session": "0", "keywords": ["<c>", "beauty"], "page": 1}
    assert outcome.observation.admissible_actions == tuple(f"click[{text}]" for text in info["clickables"])  # type: ignore[union-attr]
    asin = recorded_world().product(recorded_world().in_category("beauty")[0]).asin
    info = environment.step(f"click[{asin}]").observation.info
    assert info["page"] == {
        "kind": "item_page",
        "session": "0",
        "asin": asin,
        "options": {},
        "keywords": ["<c>", "beauty"],
        "page": 1,
    }
    assert environment.step("click[features]").observation.info["page"]["sub_page"] == "Features"  # type: ignore[index, call-overload]


@pytest.mark.parametrize("reward", ["score", "success"])
def test_a_perfect_purchase_is_won_and_a_poorer_one_is_not(family: WebshopFamily, reward: str) -> None:
    perfect = bought(family, ended(lambda paid: paid == 1.0), reward=reward)
    assert (perfect.reward, perfect.observation.info["won"], perfect.observation.info["score"]) == (1.0, True, 1.0)
    poorer = ended(lambda paid: 0 < paid < 1)
    recorded = next(step for step in poorer["steps"] if step.get("done"))
    outcome = bought(family, poorer, reward=reward)
    assert outcome.reward == (recorded["reward"] if reward == "score" else 0.0)
    info = outcome.observation.info
    assert (info["won"], info["score"]) == (False, recorded["reward"])
    assert {name: info[name] for name in recorded["verbose_info"]} == recorded["verbose_info"]


def test_a_search_that_the_original_cannot_do_is_a_step_that_changes_nothing(family: WebshopFamily) -> None:
    environment = opened(family)
    environment.step("search[<c> beauty]")
    keys = [environment.state_key(kind) for kind in KINDS if kind is not StateKeyKind.HISTORY]
    for search, error in [
        ("<a>", "TypeError"),
        ("<a> red", "TypeError"),
        ("<c>", "IndexError"),
    ]:
        outcome = environment.step(f"search[{search}]")
        assert str(outcome.observation.info["error"]).startswith(error)
        assert (outcome.reward, outcome.terminated, outcome.valid_action) == (0.0, False, True)
        assert [environment.state_key(kind) for kind in KINDS if kind is not StateKeyKind.HISTORY] == keys
    assert "error" not in environment.step("click[next >]").observation.info


def test_state_keys_are_equal_exactly_when_states_are(family: WebshopFamily) -> None:
    world = recorded_world()
    number = next(n for n in range(len(world)) if any(len(v) > 1 for v in world.product(n).options.values()))
    product = world.product(number)
    value = next(v for v in product.options.values() if len(v) > 1)[0]
    here = [f"search[<q> {product.query}]", f"click[{product.asin}]"]
    elsewhere = [f"search[<q>  {product.query}]", f"click[{product.asin}]"]

    def key(kind: StateKeyKind, *actions: str) -> str:
        environment = opened(family)
        for action in actions:
            assert environment.step(action).valid_action, action
        return environment.state_key(kind)

    for kind in KINDS:
        assert key(kind, *here) != key(kind, *here, f"click[{value}]")
        assert key(kind, *here) != key(kind, *here, "click[description]")
        assert key(kind) != key(kind, here[0])
        assert key(kind, *here) == key(kind, *here)
    there_and_back = [*here, f"click[{value}]", "click[< prev]", f"click[{product.asin}]"]
    assert key(StateKeyKind.SIMULATOR, *here) == key(StateKeyKind.SIMULATOR, *there_and_back)
    assert key(StateKeyKind.HISTORY, *here) != key(StateKeyKind.HISTORY, *there_and_back)
    # An item is the same item, whichever search led to it; a list of results is not.
    assert key(StateKeyKind.SIMULATOR, *here) == key(StateKeyKind.SIMULATOR, *elsewhere)
    assert key(StateKeyKind.SIMULATOR, here[0]) != key(StateKeyKind.SIMULATOR, elsewhere[0])
    # Sub-pages do not show what was chosen.
    plain, chosen = [*here, "click[reviews]"], [*here, f"click[{value}]", "click[reviews]"]
    assert key(StateKeyKind.OBSERVATION, *plain) == key(StateKeyKind.OBSERVATION, *chosen)
    assert key(StateKeyKind.OBSERVATION_INVENTORY, *plain) != key(StateKeyKind.OBSERVATION_INVENTORY, *chosen)


WORDS = [
    "<c> beauty",
    "<c> garden",
    "<q> sofa tables",
    "<a>",
    "<c>",
    "<r>",
    "search_results",
    "  ",
    '"red"',
    "é",
    "a+b/c",
]
texts = st.one_of(
    st.integers(0, 60),  # the admissible action of that number
    st.sampled_from(WORDS).map(lambda words: f"search[{words}]"),
    st.text(max_size=30),
    st.text(alphabet=st.characters(), max_size=12).map(lambda text: f"click[{text}]"),
    st.sampled_from(["", "click[]", "search[]", "click[buy now", "CLICK[buy now]", "click[\n]", "x" * 20_000]),
)


def action_of(environment: WebshopEnvironment, given_text: int | str) -> str:
    if isinstance(given_text, str):
        return given_text
    admissible = environment._turn.page.actions.admissible or ("search[wine]",)
    return admissible[given_text % len(admissible)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(texts, max_size=15),
    branch=st.lists(texts, max_size=4),
    mode=st.sampled_from(["text", "text_rich", "html", "url"]),
    compat=st.sampled_from(["original", "fixed"]),
)
def test_whatever_is_said_an_episode_replays_clones_and_stands_still_for_nonsense(
    family: WebshopFamily, script: list[int | str], branch: list[int | str], mode: str, compat: str
) -> None:
    environment = opened(family, observation_mode=mode, compat=compat)
    said, results = [], []
    for given_text in script:
        before = environment.clone()
        action = action_of(environment, given_text)
        outcome = environment.step(action)
        said.append(action)
        results.append((outcome, [environment.state_key(kind) for kind in KINDS]))
        if not outcome.valid_action or "error" in outcome.observation.info:
            assert (outcome.reward, outcome.terminated) == (0.0, False)
            assert environment._turn.page == before._turn.page
            for kind in KINDS[:3]:
                assert environment.state_key(kind) == before.state_key(kind)
        if isinstance(given_text, int):
            assert outcome.valid_action
        twin = environment.clone()  # goes another way, and the first one is none the wiser
        for other in branch:
            twin.step(action_of(twin, other))
        assert [environment.state_key(kind) for kind in KINDS] == results[-1][1]
    again = opened(family, observation_mode=mode, compat=compat)
    assert [(again.step(action), [again.state_key(kind) for kind in KINDS]) for action in said] == results


def test_seeds_draw_by_weight_within_the_split_and_off_by_one_unless_fixed(family: WebshopFamily) -> None:
    goals = recorded_world().goals(GoalKind.SYNTHETIC)
    drawn = {
        c: Counter(family.draw("synthetic_test", s, {"compat": c}) for s in range(6000)) for c in ("original", "fixed")
    }
    assert drawn["original"]["synthetic-0"] == 0
    assert drawn["fixed"]["synthetic-0"] > 0
    for compat, shift in (("original", 1), ("fixed", 0)):
        weights = {f"synthetic-{i}": goals.goal(i - shift).weight for i in range(1, 500)}
        heavy = set(sorted(weights, key=lambda task: weights[task])[-100:])
        share = sum(weights[task] for task in heavy) / sum(weights.values())
        assert set(drawn[compat]) <= set(family.tasks("synthetic_test"))
        assert sum(drawn[compat][task] for task in heavy) / 6000 == pytest.approx(share, abs=0.03)
    assert family.draw("human_valid", 3, {}) == family.draw("human_valid", 3, {})


def test_a_split_that_the_off_by_one_draw_cannot_reach_still_gives_its_goal() -> None:
    goals = recorded_world().goals(GoalKind.SYNTHETIC)
    assert goals.draw(Random(1), range(1)) == 0
    last = len(goals) - 1
    assert {goals.draw(Random(seed), range(last, last + 1)) for seed in range(20)} == {last}
    assert {goals.draw(Random(seed), range(1, 3)) for seed in range(200)} == {1, 2}
