"""The buffer's codec: what goes in comes out, and damage is told from content."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.buffer.codec import CodecError, decode_group, encode_group
from shared.trajectory import Episode, EpisodeEnd, Group, Step
from tests.trajectories import assert_same_group, make_group

_floats = st.floats(allow_nan=False, width=32)
_int32 = st.integers(-(2**31), 2**31 - 1)
_text = st.text(max_size=20)


@st.composite
def _steps(draw: st.DrawFn) -> Step:
    length = draw(st.integers(0, 4))
    return Step(
        observation=draw(_text),
        action=draw(_text),
        state_key=draw(_text),
        prompt_token_ids=np.array(draw(st.lists(_int32, max_size=6)), dtype=np.int32),
        token_ids=np.array(draw(st.lists(_int32, min_size=length, max_size=length)), dtype=np.int32),
        logprobs=np.array(draw(st.lists(_floats, min_size=length, max_size=length)), dtype=np.float32),
        policy_versions=np.array(draw(st.lists(_int32, min_size=length, max_size=length)), dtype=np.int32),
        reward=draw(_floats),
        valid_action=draw(st.booleans()),
    )


_episodes = st.builds(
    Episode,
    steps=st.lists(_steps(), max_size=4).map(tuple),
    end=st.sampled_from(EpisodeEnd),
    final_state_key=_text,
    won=st.booleans(),
    score=_floats,
    optimal_steps=st.none() | st.integers(0, 100),
)
_groups = st.builds(
    Group,
    step=st.integers(0, 10**6),
    index=st.integers(0, 10**4),
    environment=_text,
    task_id=_text,
    task_type=_text,
    episodes=st.lists(_episodes, max_size=3).map(tuple),
    generation_s=_floats,
)


@given(_groups)
def test_any_group_survives_the_round_trip(group: Group) -> None:
    assert_same_group(decode_group(encode_group(group)), group)


@given(st.data())
def test_a_flipped_byte_is_noticed_or_changes_nothing(data: st.DataObject) -> None:
    group = make_group()
    payload = bytearray(encode_group(group))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode_group(bytes(payload))
    except CodecError:
        return
    # Some bits of a zstd frame have no influence on what comes out; the checksum holds for the content.
    assert_same_group(decoded, group)


@pytest.mark.parametrize("keep", [0, 2, 3, 10, -1])
def test_a_payload_cut_short_is_noticed(keep: int) -> None:
    with pytest.raises(CodecError):
        decode_group(encode_group(make_group())[:keep])


def test_a_payload_of_another_format_says_so() -> None:
    payload = encode_group(make_group())
    with pytest.raises(CodecError, match="format 9 is not the 2"):
        decode_group(payload[:2] + bytes([9]) + payload[3:])


def test_a_step_without_a_version_for_every_token_is_refused() -> None:
    whole = make_group(episodes=1, steps=1).episodes[0].steps[0]
    short = Step(
        whole.observation,
        whole.action,
        whole.state_key,
        whole.prompt_token_ids,
        whole.token_ids,
        whole.logprobs,
        whole.policy_versions[:-1],
        whole.reward,
        whole.valid_action,
    )
    group = Group(0, 0, "maze", "t", "", (Episode((short,), EpisodeEnd.TERMINATED, "k", False, 0.0),))
    with pytest.raises(ValueError, match="4 policy versions"):
        encode_group(group)


def test_repeated_prompts_cost_little() -> None:
    group = make_group(episodes=8, steps=20, prompt=150)
    raw = sum(step.prompt_token_ids.nbytes for episode in group.episodes for step in episode.steps)
    assert len(encode_group(group)) < raw / 3
