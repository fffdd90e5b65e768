"""Playing by hand in the dashboard: the address, the actions as buttons, how a game stands, and troubles in words."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from services.trainer.dashboard.play_data import (
    ActionGroup,
    AddressError,
    Blank,
    Choice,
    Game,
    Outcome,
    another,
    chosen_by,
    ending,
    grouped,
    matches,
    named,
    offered,
    usual_split,
)
from services.trainer.dashboard.play_servers import EnvServerError, Turn
from services.trainer.dashboard.play_troubles import WayOut, trouble
from shared.schemas.environment import (
    EnvironmentDescription,
    InfoValue,
    Observation,
    OptionDescription,
    StepResult,
)
from shared.shop_page import Buttons, Listed

EXPERT = OptionDescription(name="expert", description="", default=False)
HOUSE = EnvironmentDescription(
    name="house",
    splits={"train": 9, "valid": 3, "test": 0},
    max_steps=50,
    action_format="a command",
    options=[EXPERT],
    versions={},
    data_digest="0",
)
MAZE = HOUSE.model_copy(update={"name": "maze", "options": [], "splits": {"easy": 1}})
SERVED = {"house": HOUSE, "maze": MAZE}


def _seen(text: str = "A room.", actions: tuple[str, ...] = (), **info: InfoValue) -> Observation:
    return Observation(
        session_id="s",
        task_id="t",
        observation=text,
        admissible_actions=[*actions],
        state_key="",
        step_index=0,
        info=info,
    )


def _turn(index: int, reward: float = 0.0, end: str = "", **info: InfoValue) -> Turn:
    seen = _seen(**info).model_dump() | {"step_index": index + 1}
    ends = {"terminated": end == "terminated", "truncated": end == "truncated"}
    return Turn("look", StepResult(**seen, reward=reward, **ends))


@pytest.mark.parametrize(
    "choice",
    [Choice("house", "valid", 2), Choice("house", "train", 0), Choice("house", "valid", task_id="pick & put/trial 1")],
)
def test_an_address_leads_to_the_task_that_it_was_made_for(choice: Choice) -> None:
    address = urlsplit(choice.address())
    assert address.path == "/play"
    assert chosen_by(dict(parse_qsl(address.query)), SERVED) == choice


def test_what_an_address_leaves_open_is_the_usual() -> None:
    assert chosen_by({}, SERVED) == Choice("house", "valid")
    assert not chosen_by({}, SERVED).names_a_task
    assert chosen_by({"environment": "maze"}, SERVED) == Choice("maze", "easy")
    assert usual_split(HOUSE.model_copy(update={"splits": {"valid": 0, "train": 2}})) == "train"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"environment": "chess"}, "environment = 'chess': the env server has house, maze."),
        ({"environment": "house", "split": "test"}, "split = 'test': house has train, valid."),
        ({"environment": "house", "index": "-1"}, "index = '-1': must be a task's number, from 0 to 2."),
        ({"environment": "house", "index": "9" * 40}, f"index = '{'9' * 40}': must be a task's number, from 0 to 2."),
    ],
)
def test_an_address_that_names_no_task_says_which_part_and_what_there_is(query: dict[str, str], said: str) -> None:
    with pytest.raises(AddressError) as error:
        chosen_by(query, SERVED)
    assert str(error.value) == said


def test_the_forms_field_takes_a_number_or_an_id() -> None:
    assert named("house", "train", " 4 ") == Choice("house", "train", 4)
    assert named("house", "train", " human-4 ") == Choice("house", "train", task_id="human-4")
    assert not named("house", "train", " ").names_a_task
    assert Choice("house", "train", 4).request(HOUSE).model_dump(exclude_defaults=True) == {
        "environment": "house",
        "split": "train",
        "index": 4,
        "options": {"expert": True},
    }
    by_id = Choice("maze", "easy", task_id="maze-3").request(MAZE)
    assert (by_id.task_id, by_id.split, by_id.options) == ("maze-3", None, {})


def test_another_task_is_another_one_wherever_there_is_one() -> None:
    drawn = {another(HOUSE, "valid", 1).index for _ in range(60)}
    assert drawn == {0, 2}
    assert another(MAZE, "easy", 0).index == 0


def test_actions_that_begin_alike_stand_together_the_large_groups_last() -> None:
    actions = [
        "go to bed 1",
        "go to desk 1",
        "go to desk 2",
        "help",
        "look",
        "take pen 1 from desk 1",
        "take key 1 from desk 1",
    ]
    assert grouped(actions) == [
        ActionGroup("", [("help", "help"), ("look", "look")]),
        ActionGroup("take", [("pen 1 from desk 1", actions[5]), ("key 1 from desk 1", actions[6])]),
        ActionGroup("go to", [("bed 1", actions[0]), ("desk 1", actions[1]), ("desk 2", actions[2])]),
    ]


def test_an_action_that_another_one_begins_with_keeps_its_words() -> None:
    assert grouped(["look", "look around"]) == [
        ActionGroup("look", [("look", "look"), ("look around", "look around")]),
    ]
    assert grouped(["go to desk 1", "go to desk 1 slowly"]) == [
        ActionGroup("go to desk", [("1", "go to desk 1"), ("1 slowly", "go to desk 1 slowly")]),
    ]


def test_typed_words_narrow_the_actions_in_any_order() -> None:
    assert matches("take pen 1 from Desk 1", "desk take")
    assert matches("look", "  ")
    assert not matches("take pen 1 from desk 1", "take cup")


def test_plain_text_is_shown_as_it_is_with_all_its_actions_below() -> None:
    found = offered(_seen("A room.\nA desk.", ("look", "go to desk 1")))
    assert found.page is None
    assert [action for group in found.groups for _, action in group.actions] == ["look", "go to desk 1"]


SHOP = """Instruction:
Find a red cup
[button] Back to Search [button_]
Page 1 (Total results: 1)

[button] B01 [button_]
Red cup
$5
"""


def test_a_pages_buttons_stand_on_it_and_the_others_below() -> None:
    actions = ("search[<query>]", "click[back to search]", "click[b01]", "click[< prev]")
    found = offered(_seen(SHOP, actions))
    assert found.blanks == [Blank("search[", "query", "]")]
    assert found.blanks[0].filled("red cup") == "search[red cup]"
    assert found.page is not None
    back, listed = found.page[0], found.page[2]
    assert isinstance(back, Buttons)
    assert isinstance(listed, Listed)
    numbers = [back.buttons[0].number, listed.button.number]
    assert [found.clicks[number - 1] for number in numbers if number is not None] == [*actions[1:3]]
    assert found.groups == [ActionGroup("", [("click[< prev]", "click[< prev]")])]


def test_a_button_that_cannot_be_pressed_is_text() -> None:
    found = offered(_seen("WebShop\n[button] Search [button_]", ("search[<query>]",)))
    assert found.page is not None
    assert isinstance(found.page[0], Buttons)
    assert found.page[0].buttons[0].number is None


def test_a_game_counts_steps_rewards_and_what_was_not_understood() -> None:
    game = Game(HOUSE, _seen(goal="put a pen on the desk", expert_action="look"))
    assert (game.goal, game.hint, game.over) == ("put a pen on the desk", "look", False)
    assert game.standing == [("Steps", "0 of 50"), ("Return", "0")]
    game.turns += [_turn(0, -0.1, valid_action=False), _turn(1, -0.2, valid_action=True, expert_action=None)]
    assert game.standing == [("Steps", "2 of 50"), ("Return", "−0.3"), ("Not understood", "1")]
    assert game.hint is None


@pytest.mark.parametrize(
    ("turn", "outcome", "title", "detail"),
    [
        (_turn(6, 1, "terminated", won=True, optimal_steps=5), Outcome.WON, "Won in 7 steps", "The expert needs 5."),
        (_turn(0, 0, "terminated", won=False, score=0.5), Outcome.LOST, "Over after 1 step, not won", "Score 50%."),
        (
            _turn(49, 0, "truncated", won=False, optimal_steps=5),
            Outcome.CUT,
            "Cut off after 50 steps, the most that there are",
            "The expert needs 5.",
        ),
    ],
)
def test_an_ending_says_whether_it_was_won_and_what_the_expert_needs(
    turn: Turn, outcome: Outcome, title: str, detail: str
) -> None:
    game = Game(HOUSE, _seen(), [turn])
    assert game.over
    end = ending(game)
    assert (end.outcome, end.title, end.detail) == (outcome, title, detail)


def test_a_shops_score_is_told_in_its_parts() -> None:
    parts: dict[str, InfoValue] = {
        "score": 0.75,
        "r_type": 1.0,
        "r_att": 0.5,
        "w_att": 0.5,
        "r_price": True,
        "w_price": 0.5,
    }
    end = ending(Game(HOUSE, _seen(), [_turn(3, 0.75, "terminated", won=False, **parts)]))
    assert end.parts == [
        ("kind of product", "100%"),
        ("attributes", "50%, counts for 50%"),
        ("price", "100%, counts for 50%"),
    ]


def _error(
    status: int | None, kind: str = "", reason: str = "Why.", wait_s: str = "", title: str = ""
) -> EnvServerError:
    kind = f"/problems/{kind}" if kind else ""
    return EnvServerError(
        "http://u:secret@127.0.0.1:8001", reason, status=status, kind=kind, title=title, wait_s=wait_s
    )


def test_an_env_server_that_is_away_is_started_by_the_command_that_is_told() -> None:
    told = trouble(_error(None, reason="no answer within 5 s"))
    assert (told.title, told.way_out) == ("The env server does not answer", WayOut.AGAIN)
    assert told.remedy == "python -m services.env_server --port 8001"
    assert "no answer within 5 s" in told.detail
    assert "secret" not in told.detail


@pytest.mark.parametrize(
    ("error", "title", "detail", "way_out"),
    [
        (_error(404, "unknown-session"), "The env server has forgotten this episode", "too long", WayOut.ANEW),
        (_error(503, "at-capacity", wait_s="5", title="Full"), "Full", "Why. It asks to wait 5 s.", WayOut.AGAIN),
        (_error(504, "deadline-exceeded"), "The environment took too long", "Why.", WayOut.AGAIN),
        (_error(409, "data-changed", title="Other data"), "Other data", "Why.", WayOut.ANEW),
        (_error(404, "unknown-task", title="No task"), "No task", "Why.", None),
        (_error(500), "The env server failed", "Why.", WayOut.AGAIN),
    ],
)
def test_a_refusal_is_told_with_the_way_out(
    error: EnvServerError, title: str, detail: str, way_out: WayOut | None
) -> None:
    told = trouble(error)
    assert (told.title, told.way_out) == (title, way_out)
    assert detail in told.detail


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused_is_told_with_its_variable(status: int) -> None:
    assert "GAGPO_TOKEN_ENVIRONMENTS" in trouble(_error(status)).remedy
