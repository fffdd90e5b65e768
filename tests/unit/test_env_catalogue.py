"""Which environments and tasks there are, and how a request names one."""

import msgspec
import pytest

from services.env_server.catalogue import ServedCatalogue
from services.env_server.environments.base import NumberedTasks
from services.env_server.environments.registry import RegistryError, load_family, registered
from services.env_server.worker_protocol import Catalogue, CatalogueEntry, DrawTask
from shared.problems import ProblemError
from shared.schemas.environment import SessionRequest
from tests.environments.maze import SPLITS, MazeFamily

MAZE = {"maze": "tests.environments.maze:MazeFamily"}


def catalogue(draws: bool = False) -> ServedCatalogue:
    description = MazeFamily().describe().model_dump_json().encode()
    return ServedCatalogue(Catalogue([CatalogueEntry(description, {**SPLITS}, draws)]))


def asked(**fields: object) -> SessionRequest:
    return SessionRequest.model_validate({"environment": "maze", **fields})


def task_of(**fields: object) -> str:
    return catalogue().birth(asked(**fields)).task_id


def test_an_index_names_the_task_at_that_place() -> None:
    assert task_of(split="train", index=0) == "maze-3"
    assert task_of(split="valid", index=4) == "maze-27"


def test_a_seed_always_draws_the_same_task_and_seeds_spread_over_all() -> None:
    """The literal values hold on every machine: a change here would change everybody's seeded runs."""
    drawn = [task_of(split="train", seed=seed) for seed in range(4)]
    assert drawn == ["maze-3", "maze-16", "maze-9", "maze-6"]
    assert {task_of(split="train", seed=seed) for seed in range(300)} == set(SPLITS["train"])


def test_the_environments_own_step_limit_is_the_default() -> None:
    requests = [{}, {"max_steps": 7}]
    births = [
        catalogue().birth(SessionRequest.model_validate({"environment": "maze", "task_id": "x", **r})) for r in requests
    ]
    assert [birth.max_steps for birth in births] == [30, 7]


def test_a_page_holds_the_tasks_from_its_offset_on() -> None:
    page = catalogue().page("maze", "valid", 3, 10)
    assert (page.tasks, page.total, page.offset) == (["maze-26", "maze-27"], 5, 3)
    assert catalogue().page("maze", "valid", 2**40, 1).tasks == []


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"environment": "nowhere", "task_id": "x"}, "unknown-environment"),
        ({"split": "nowhere", "index": 0}, "unknown-split"),
        ({"split": "valid", "index": 5}, "unknown-task"),
    ],
)
def test_what_does_not_exist_is_named_in_the_problem(fields: dict[str, object], kind: str) -> None:
    with pytest.raises(ProblemError) as refused:
        task_of(**fields)
    assert refused.value.kind == kind


def test_only_an_environment_with_a_draw_of_its_own_is_asked_for_the_task_of_a_seed() -> None:
    request = asked(split="valid", seed=7, options={"start": 1})
    assert catalogue().to_draw(request) is None
    assert catalogue(draws=True).to_draw(request) == DrawTask("maze", "valid", 7, {"start": 1})
    assert catalogue(draws=True).to_draw(asked(split="valid", index=7)) is None
    with pytest.raises(ProblemError) as refused:
        catalogue(draws=True).to_draw(asked(split="nowhere", seed=7))
    assert refused.value.kind == "unknown-split"


def test_numbered_tasks_are_what_a_list_of_them_would_be() -> None:
    tasks = NumberedTasks("goal-", 3, 8)
    listed = ["goal-3", "goal-4", "goal-5", "goal-6", "goal-7"]
    assert list(tasks) == listed
    assert (len(tasks), tasks[0], tasks[-1], tasks[1:3], tasks[4:99]) == (
        5,
        "goal-3",
        "goal-7",
        listed[1:3],
        listed[4:],
    )
    assert [number for number in range(12) if f"goal-{number}" in tasks] == [3, 4, 5, 6, 7]
    with pytest.raises(IndexError):
        tasks[5]


@pytest.mark.parametrize(
    "strange", ["goal-", "goal-03", "goal- 3", "3", "goal--3", "goal-٣", "Goal-3", "goal-" + "3" * 9999]
)
def test_an_id_that_only_looks_like_a_numbered_task_is_none(strange: str) -> None:
    assert strange not in NumberedTasks("goal-", 0, 10)


def test_millions_of_numbered_tasks_travel_as_a_range() -> None:
    entry = CatalogueEntry(b"{}", {"train": NumberedTasks("goal-", 1500, 5_000_000), "test": ["a", "b"]})
    encoded = msgspec.msgpack.encode(entry)
    assert len(encoded) < 100
    assert msgspec.msgpack.decode(encoded, type=CatalogueEntry) == entry


def test_settings_add_environments_to_those_found_by_entry_point() -> None:
    assert registered(MAZE, None)["maze"] == MAZE["maze"]
    assert "alfworld" in registered(MAZE, None)
    assert registered(MAZE, ["maze"]) == MAZE
    assert isinstance(load_family("maze", MAZE["maze"]), MazeFamily)


@pytest.mark.parametrize("reference", ["nonsense", "no.such.module:Thing", "tests.environments.maze:Nothing"])
def test_a_reference_that_does_not_load_says_which_and_why(reference: str) -> None:
    with pytest.raises(RegistryError, match="environment 'broken'"):
        load_family("broken", reference)


def test_an_unknown_name_to_serve_lists_those_there_are() -> None:
    with pytest.raises(RegistryError, match=r"nowhere.*maze"):
        registered(MAZE, ["nowhere"])
