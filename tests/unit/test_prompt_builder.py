"""Prompts: what is shown, what is cut when it gets long, and what never is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.prompting import (
    EMPTY_ACTION,
    ActionFormat,
    PolicyTokenizer,
    PromptBuilder,
    PromptTooLongError,
    TemplateError,
    TokenizerError,
    parse_action,
)
from shared.recipe import PromptSettings
from shared.schemas.environment import MAX_ACTION_CHARS
from tests.tokenizers import CHAT_TEMPLATE, write_tokenizer

WORDS = "put the mug on desk 1 2 3 4 look see nothing go to [ ] > user assistant hall room act obs"
PLAIN = """{#
format = "plain"
action = "whole"
#}
{{ task }}{% for turn in history %} obs {{ turn.observation }} act {{ turn.action }}{% endfor %} see {{ observation }}
{%- for action in admissible %} [ {{ action }} ]{% endfor %}
"""


@pytest.fixture
def tokenizer(tmp_path: Path) -> PolicyTokenizer:
    return PolicyTokenizer(write_tokenizer(tmp_path / "model", WORDS))


@pytest.fixture
def plain(tmp_path: Path) -> str:
    path = tmp_path / "plain.jinja"
    path.write_text(PLAIN)
    return str(path)


def _shown(builder: PromptBuilder, tokenizer: PolicyTokenizer, turns: int, admissible: list[str]) -> str:
    prompts = builder.start("put the mug", {})
    for turn in range(turns):
        prompts.record(f"room {turn + 1}", "look")
    return tokenizer.decode(prompts.render("hall", admissible))


def test_the_last_turns_are_shown_oldest_first(tokenizer: PolicyTokenizer, plain: str) -> None:
    builder = PromptBuilder(PromptSettings(template=plain, history_length=2), tokenizer)
    assert _shown(builder, tokenizer, 0, []) == "put the mug see hall"
    assert _shown(builder, tokenizer, 3, []) == "put the mug obs room 2 act look obs room 3 act look see hall"


def test_admissible_actions_are_shown_only_when_asked_for(tokenizer: PolicyTokenizer, plain: str) -> None:
    with_list = PromptBuilder(PromptSettings(template=plain), tokenizer)
    without = PromptBuilder(PromptSettings(template=plain, admissible_actions=False), tokenizer)
    assert _shown(with_list, tokenizer, 0, ["look", "go to desk"]) == "put the mug see hall [ look ] [ go to desk ]"
    assert _shown(without, tokenizer, 0, ["look", "go to desk"]) == "put the mug see hall"


def test_a_long_prompt_loses_its_oldest_turns_and_nothing_else(tokenizer: PolicyTokenizer, plain: str) -> None:
    builder = PromptBuilder(PromptSettings(template=plain, history_length=4, max_tokens=19), tokenizer)
    text = _shown(builder, tokenizer, 4, ["look"])
    assert text == "put the mug obs room 3 act look obs room 4 act look see hall [ look ]"


def test_a_prompt_that_is_too_long_without_history_is_an_error(tokenizer: PolicyTokenizer, plain: str) -> None:
    builder = PromptBuilder(PromptSettings(template=plain, max_tokens=16), tokenizer)
    with pytest.raises(PromptTooLongError, match=r"prompt.max_tokens is 16"):
        _shown(builder, tokenizer, 3, ["go to desk 1"] * 3)


@given(turns=st.integers(0, 6), limit=st.integers(16, 60), actions=st.integers(0, 3))
def test_every_prompt_fits_and_keeps_the_task_and_the_observation(
    tmp_path_factory: pytest.TempPathFactory, turns: int, limit: int, actions: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fits"
    if not folder.exists():
        write_tokenizer(folder, WORDS)
        (folder / "plain.jinja").write_text(PLAIN)
    tokenizer = PolicyTokenizer(folder)
    template = str(folder / "plain.jinja")
    builder = PromptBuilder(PromptSettings(template=template, history_length=5, max_tokens=limit), tokenizer)
    prompts = builder.start("put the mug", {})
    for turn in range(turns):
        prompts.record(f"room {turn}", "look")
    if 5 + 6 * actions > limit:  # the task, what is seen, and the actions
        with pytest.raises(PromptTooLongError):
            prompts.render("hall", ["go to desk 1"] * actions)
        return
    ids = prompts.render("hall", ["go to desk 1"] * actions)
    text = tokenizer.decode(ids)
    assert len(ids) <= limit
    assert text.startswith("put the mug ")
    assert "see hall" in text
    assert text.count("[") == actions


def test_the_goal_that_the_environment_names_is_the_task(tokenizer: PolicyTokenizer, plain: str) -> None:
    builder = PromptBuilder(PromptSettings(template=plain), tokenizer)
    assert builder.start("hall", {"goal": "put the mug"}).task == "put the mug"
    assert builder.start("hall", {}).task == "hall"


@pytest.mark.parametrize("name", ["compact", "think-action"])
def test_the_shipped_templates_show_task_turns_and_observation(tmp_path: Path, name: str) -> None:
    words = "T1 H1 H2 A1 A2 O1 X1 X2 do this: user assistant"
    tokenizer = PolicyTokenizer(write_tokenizer(tmp_path, words, CHAT_TEMPLATE))
    builder = PromptBuilder(PromptSettings(template=name, history_length=2), tokenizer)
    prompts = builder.start("I1", {"goal": "T1"})
    prompts.record("H1", "A1")
    prompts.record("H2", "A2")
    unknown = tokenizer.encode("zzz", special=False)
    known = [token for token in prompts.render("O1", ["X1 ,", "X2 ]"]) if [token] != unknown]
    text = tokenizer.decode(known).split()
    for word in ("T1", "H2", "A1", "A2", "O1"):
        assert word in text


def test_a_chat_template_gets_the_message_and_the_special_tokens(tmp_path: Path) -> None:
    tokenizer = PolicyTokenizer(write_tokenizer(tmp_path, WORDS, CHAT_TEMPLATE))
    ids = tokenizer.encode_chat("look desk")
    assert ids == tokenizer.encode("<bos> user look desk <eos> <bos> assistant", special=False)


def test_a_chat_prompt_without_a_chat_template_says_what_to_do(tokenizer: PolicyTokenizer) -> None:
    builder = PromptBuilder(PromptSettings(template="think-action"), tokenizer)
    with pytest.raises(TokenizerError, match="compact"):
        builder.start("hall", {}).render("hall", [])


def test_an_unknown_template_names_those_that_ship(tokenizer: PolicyTokenizer) -> None:
    with pytest.raises(TemplateError, match="compact, direct, think-action"):
        PromptBuilder(PromptSettings(template="compcat"), tokenizer)


def test_a_template_with_a_wrong_header_is_refused(tmp_path: Path, tokenizer: PolicyTokenizer) -> None:
    path = tmp_path / "wrong.jinja"
    for text in ("no header", '{# format = "plain" #}', '{# format = "plain"\naction = "loud" #}', "{# = #}"):
        path.write_text(text)
        with pytest.raises(TemplateError, match=r"wrong\.jinja"):
            PromptBuilder(PromptSettings(template=str(path)), tokenizer)


def test_an_answer_is_spelled_back_by_its_tokens(tokenizer: PolicyTokenizer, plain: str) -> None:
    builder = PromptBuilder(PromptSettings(template=plain), tokenizer)
    answer = builder.answer("go to desk 1")
    assert answer[-1] in builder.stop_token_ids
    assert builder.action(answer) == "go to desk 1"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<think>the mug is there</think><action>go to desk 1</action>", "go to desk 1"),
        ("<action>look</action> or rather <action> take mug\n1 </action>", "take mug 1"),
        ("<ACTION>look</ACTION>", "look"),
        ("I would go to desk 1", "I would go to desk 1"),
        ("<action>look", "<action>look"),
        ("<think></think><action></action>", EMPTY_ACTION),
        ("", EMPTY_ACTION),
    ],
)
def test_the_last_tagged_action_counts_and_without_tags_the_whole_text_does(text: str, action: str) -> None:
    assert parse_action(text, ActionFormat.TAGGED) == action


@given(st.text())
def test_whatever_is_generated_can_be_sent(text: str) -> None:
    for form in ActionFormat:
        action = parse_action(text + "x" * 20_000, form)
        assert 0 < len(action) <= MAX_ACTION_CHARS
        assert action.isprintable() or not any(ord(letter) < 32 for letter in action)


def test_only_what_cannot_be_sent_is_taken_out() -> None:
    assert parse_action(" go\tto\x00desk\n1 ", ActionFormat.WHOLE) == "go to desk 1"
    assert parse_action("<action>look</action>", ActionFormat.WHOLE) == "<action>look</action>"
