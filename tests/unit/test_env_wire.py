"""The fast parser of the stepping routes accepts exactly what the documented models accept."""

import json
import re
from typing import Any

import msgspec
import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from services.env_server import wire
from services.env_server.worker_protocol import Encoding
from shared.schemas.environment import ACTION_PATTERN, MAX_ACTION_CHARS, StepBatch, check_action

whitespace_or_control = st.sampled_from([" ", "\t", "\n", "\x00", "\x7f", "\x85", "\xa0", "\u2003", "a", "é"])
texts = st.one_of(st.text(max_size=5), st.text(whitespace_or_control, max_size=4))
values = st.one_of(texts, st.integers(-1, 3), st.floats(-1, 3), st.booleans(), st.none())
steps = st.fixed_dictionaries(
    {},
    optional={
        "session_id": st.one_of(texts, values),
        "action": st.one_of(texts, texts, values),
        "step_index": st.one_of(st.integers(0, 9), values),
        "extra": st.none(),
    },
)
good_steps = st.fixed_dictionaries({"session_id": texts, "action": texts, "step_index": st.integers(0, 9)})
batches = st.one_of(
    st.fixed_dictionaries({"steps": st.lists(st.one_of(good_steps, good_steps, good_steps, steps), max_size=3)}), values
)


@settings(max_examples=200)
@given(batch=batches, encoding=st.sampled_from(["json", "msgpack"]))
def test_a_batch_is_read_as_the_model_reads_it(batch: Any, encoding: Encoding) -> None:
    as_json = json.dumps(batch).encode()
    body = as_json if encoding == "json" else msgspec.msgpack.encode(batch)
    try:
        expected = StepBatch.model_validate_json(as_json, strict=True).steps
    except ValidationError:
        with pytest.raises(RequestValidationError):
            wire.parse_batch(body, encoding)
        return
    parsed = wire.parse_batch(body, encoding)
    assert [(s.session_id, s.action, s.step_index) for s in parsed] == [
        (s.session_id, s.action, s.step_index) for s in expected
    ]


@settings(max_examples=200)
@given(action=st.one_of(texts, st.text(max_size=20)))
def test_the_documented_pattern_accepts_what_the_check_accepts(action: str) -> None:
    # ECMAScript's $ is the end only, Python's also stands before a final newline: \Z says what JSON Schema means.
    by_pattern = re.search(ACTION_PATTERN[:-1] + r"\Z", action) is not None
    try:
        check_action(action)
    except ValueError:
        assert not by_pattern
    else:
        assert by_pattern


def test_a_long_hostile_action_is_checked_quickly() -> None:
    last = MAX_ACTION_CHARS - 1
    for hostile in (" " * MAX_ACTION_CHARS, "a" * last + "\n", "\xa0" * last + "\x00"):
        with pytest.raises(ValueError, match="action"):
            check_action(hostile)
        assert re.search(ACTION_PATTERN[:-1] + r"\Z", hostile) is None


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 70_000])
def test_joined_fragments_are_one_valid_list(count: int) -> None:
    items = [{"n": n} for n in range(count)]
    as_json = wire.join_list("results", [msgspec.json.encode(item) for item in items], "json")
    assert json.loads(as_json) == {"results": items}
    as_msgpack = wire.join_list("results", [msgspec.msgpack.encode(item) for item in items], "msgpack")
    assert msgspec.msgpack.decode(as_msgpack) == {"results": items}


def test_a_refusal_names_the_field_and_what_is_wrong_with_it() -> None:
    body = b'{"steps": [{"session_id": "a", "action": "x", "step_index": 0}, {"session_id": "b", "action": 5}]}'
    with pytest.raises(RequestValidationError) as refused:
        wire.parse_batch(body, "json")
    assert {fault["loc"] for fault in refused.value.errors()} == {
        ("body", "steps", 1, "action"),
        ("body", "steps", 1, "step_index"),
    }
