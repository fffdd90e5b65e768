"""A worker's episodes: groups from one load, rebuilt by replay, limited in steps, and alone in their failures."""

import msgspec
import pytest

from services.env_server.episodes import EpisodeTable
from services.env_server.worker_protocol import LOST, Birth, DrawTask, Item, Outcome
from shared.schemas.environment import StateKeyKind
from tests.environments.maze import Maze, MazeFamily


class CountingFamily(MazeFamily):
    """Counts how often a task is loaded."""

    def __init__(self) -> None:
        self.loads = 0

    def open(self, task_id: str, options: object) -> Maze:  # type: ignore[override]
        self.loads += 1
        return super().open(task_id, options)  # type: ignore[arg-type]


class DrawingFamily(MazeFamily):
    """Draws the smallest maze that has at least as many rooms as the seed says."""

    def draw(self, split: str, seed: int, options: object) -> str:
        return min((task for task in self.tasks(split) if int(task[5:]) >= seed), key=lambda task: int(task[5:]))


class Progress:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def item(self, index: int) -> None:
        self.told.append(f"item {index}")

    def opening(self) -> None:
        self.told.append("opening")

    def stepping(self) -> None:
        self.told.append("stepping")


def birth(max_steps: int = 30, state_key: str = "simulator", true_state: bool = False) -> Birth:
    return Birth("maze", "maze-5", {}, max_steps, state_key, "", true_state)


def made() -> tuple[EpisodeTable, CountingFamily, Progress]:
    family, progress = CountingFamily(), Progress()
    return EpisodeTable({"maze": family}, progress), family, progress


def read(outcome: Outcome) -> dict[str, object]:
    assert outcome.fault is None, outcome.fault
    fields: dict[str, object] = msgspec.json.decode(outcome.fragment)
    return fields


def kinds(outcomes: list[Outcome]) -> list[str | None]:
    return [outcome.fault.kind if outcome.fault else None for outcome in outcomes]


def test_a_group_is_loaded_once_and_its_members_go_separate_ways() -> None:
    table, family, _ = made()
    assert [read(o)["session_id"] for o in table.open_group(["a", "b", "c"], birth(), "json")] == ["a", "b", "c"]
    assert family.loads == 1
    outcomes = table.run([Item("a", 0, "north"), Item("b", 0, "south"), Item("a", 1, "north")], "json")
    assert [read(o)["state_key"] for o in outcomes] == ["1|False", "4|False", "2|False"]
    assert read(table.run([Item("c", 0, "dance")], "json")[0])["state_key"] == "0|False"


def test_replay_gives_the_same_result_as_the_live_episode() -> None:
    table, _, _ = made()
    table.open_group(["a"], birth(), "json")
    past = ["north", "north", "take coin", "dance"]
    lived = [read(table.run([Item("a", index, action)], "json")[0]) for index, action in enumerate(past)]
    other, _, _ = made()
    for length in range(1, 5):
        rebuilt = other.run([Item("a", length, None, birth(), past[:length])], "json")[0]
        assert read(rebuilt) == lived[length - 1]
    went_on = other.run([Item("a", 4, "north")], "json")[0]
    assert read(went_on) == read(table.run([Item("a", 4, "north")], "json")[0])


def test_the_true_state_is_told_where_asked_for_and_survives_a_replay() -> None:
    asked = birth(state_key="observation", true_state=True)
    table, _, _ = made()
    opened = [read(o) for o in table.open_group(["a", "b"], asked, "json")]
    assert [(o["state_key"], o["true_state"]) for o in opened] == [
        ("You wake up in a maze. Room 0 of 5.", "0|False")
    ] * 2
    walked = read(table.run([Item("a", 0, "south")], "json")[0])
    assert (walked["state_key"], walked["true_state"]) == ("You walk south. Room 4 of 5.", "4|False")
    other, _, _ = made()
    rebuilt, went_on = other.run([Item("a", 1, None, asked, ["south"]), Item("a", 1, "south")], "json")
    assert read(rebuilt) == walked
    assert read(went_on)["true_state"] == "3|False"
    silent = read(table.open_group(["c"], birth(state_key="observation"), "json")[0])
    assert "true_state" not in silent
    assert "true_state" not in read(table.run([Item("c", 0, "south")], "json")[0])


def test_a_true_state_that_is_the_state_key_already_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[StateKeyKind] = []
    compute = Maze.state_key

    def counted(maze: Maze, kind: StateKeyKind) -> str:
        asked.append(kind)
        return compute(maze, kind)

    monkeypatch.setattr(Maze, "state_key", counted)
    table, _, _ = made()
    (opened,) = table.open_group(["a"], birth(true_state=True), "json")
    assert read(opened)["true_state"] == read(opened)["state_key"] == "0|False"
    assert read(table.run([Item("a", 0, "north")], "json")[0])["true_state"] == "1|False"
    assert asked == [StateKeyKind.SIMULATOR] * 2


def test_a_look_at_the_past_leaves_the_live_episode_alone() -> None:
    table, _, _ = made()
    table.open_group(["a"], birth(), "json")
    first = read(table.run([Item("a", 0, "north")], "json")[0])
    table.run([Item("a", 1, "north")], "json")
    assert read(table.run([Item("a", 1, None, birth(), ["north"], keep=False)], "json")[0]) == first
    assert read(table.run([Item("a", 2, "north")], "json")[0])["step_index"] == 3


def test_the_step_limit_truncates_and_nothing_follows() -> None:
    table, _, _ = made()
    table.open_group(["a"], birth(max_steps=2), "json")
    first, second = table.run([Item("a", 0, "north"), Item("a", 1, "north")], "json")
    assert (first.truncated, second.truncated, second.terminated) == (False, True, False)
    assert read(second)["truncated"] is True
    assert kinds(table.run([Item("a", 2, "north")], "json")) == ["episode-over"]


def test_winning_at_the_last_step_is_terminated_and_not_truncated() -> None:
    table, _, _ = made()
    table.open_group(["a"], birth(max_steps=5), "json")
    moves = ["north", "north", "take coin", "north", "north"]
    last = table.run([Item("a", index, action) for index, action in enumerate(moves)], "json")[-1]
    assert (last.terminated, last.truncated, read(last)["reward"]) == (True, False, 1.0)


def test_an_episode_that_is_elsewhere_is_reported_lost() -> None:
    table, _, _ = made()
    table.open_group(["a"], birth(), "json")
    assert kinds(table.run([Item("a", 3, "north"), Item("nobody", 0, "north")], "json")) == [LOST, LOST]
    table.drop(["a", "nobody"])
    assert kinds(table.run([Item("a", 0, "north")], "json")) == [LOST]


def test_an_environment_that_raises_fails_alone_and_its_episode_is_dropped() -> None:
    table, _, _ = made()
    table.open_group(["a", "b"], birth(), "json")
    outcomes = table.run([Item("a", 0, "raise"), Item("b", 0, "north"), Item("a", 0, "north")], "json")
    assert kinds(outcomes) == ["environment-error", None, LOST]


def test_progress_is_told_before_whatever_may_hang() -> None:
    table, _, progress = made()
    table.run([Item("a", 1, "south", birth(), ["north"]), Item("a", 2, "north")], "json")
    assert progress.told == ["item 0", "opening", "stepping", "stepping", "item 1", "stepping"]


def test_an_environment_may_draw_tasks_by_its_own_rule() -> None:
    table = EpisodeTable({"maze": DrawingFamily()}, Progress())
    assert table.draw(DrawTask("maze", "train", 9, {})).fragment == b"maze-9"
    assert kinds([table.draw(DrawTask("maze", "nowhere", 9, {}))]) == ["unknown-split"]
    assert kinds([table.draw(DrawTask("maze", "train", 99, {}))]) == ["environment-error"]
