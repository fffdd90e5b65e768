"""A group as bytes and back: msgpack + zstd, arrays as raw little-endian int32/float32, never pickle (DESIGN §6).

Layout: ``b"GG"``, one byte of format version, then a checksummed zstd frame that holds one msgpack array. The token
arrays of an episode's steps are joined into one blob a kind, with the lengths beside them: prompts of one episode
repeat much of each other, and zstd finds that best when they are neighbours.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from shared.trajectory import Episode, EpisodeEnd, FloatArray, Group, IntArray, Step

FORMAT_VERSION = 2
MAX_DECODED_BYTES = 1 << 30
"""A payload that unpacks to more is refused as damaged: a group has a few megabytes."""

_MAGIC = b"GG"
_HEADER = len(_MAGIC) + 1


class CodecError(ValueError):
    """A payload that is damaged, or of a format that this release does not know."""


class _WireEpisode(msgspec.Struct, array_like=True, frozen=True):
    observations: list[str]
    actions: list[str]
    state_keys: list[str]
    rewards: list[float]
    valid_actions: list[bool]
    true_states: list[str]
    prompt_lengths: bytes
    action_lengths: bytes
    prompt_token_ids: bytes
    token_ids: bytes
    logprobs: bytes
    policy_versions: bytes
    end: EpisodeEnd
    final_state_key: str
    won: bool
    score: float
    optimal_steps: int | None
    final_observation: str


class _WireGroup(msgspec.Struct, array_like=True, frozen=True):
    step: int
    index: int
    environment: str
    task_id: str
    task_type: str
    generation_s: float
    episodes: list[_WireEpisode]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_WireGroup)


def encode_group(group: Group) -> bytes:
    """The group's payload, as it is stored in Redis."""
    wire = _WireGroup(
        step=group.step,
        index=group.index,
        environment=group.environment,
        task_id=group.task_id,
        task_type=group.task_type,
        generation_s=group.generation_s,
        episodes=[_episode_to_wire(episode) for episode in group.episodes],
    )
    # A compressor is not safe to share between threads and costs next to nothing to make.
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return _MAGIC + bytes([FORMAT_VERSION]) + compressor.compress(_encoder.encode(wire))


def decode_group(payload: bytes) -> Group:
    """The group that `encode_group` made the payload from. Raises `CodecError`."""
    if payload[: len(_MAGIC)] != _MAGIC or len(payload) <= _HEADER:
        raise CodecError(f"not a group: the payload of {len(payload)} bytes does not begin with {_MAGIC!r}")
    if payload[len(_MAGIC)] != FORMAT_VERSION:
        raise CodecError(
            f"group format {payload[len(_MAGIC)]} is not the {FORMAT_VERSION} that this release reads: "
            "run the orchestrator and the trainer from the same release"
        )
    try:
        wire = _decoder.decode(_decompress(payload[_HEADER:]))
        episodes = tuple(_episode_from_wire(episode) for episode in wire.episodes)
    except (zstandard.ZstdError, msgspec.DecodeError, ValueError) as error:
        raise CodecError(f"damaged group of {len(payload)} bytes: {error}") from error
    return Group(
        step=wire.step,
        index=wire.index,
        environment=wire.environment,
        task_id=wire.task_id,
        task_type=wire.task_type,
        episodes=episodes,
        generation_s=wire.generation_s,
    )


def _decompress(frame: bytes) -> bytes:
    size = zstandard.frame_content_size(frame)
    if not 0 <= size <= MAX_DECODED_BYTES:
        raise CodecError(f"the frame claims a size of {size} bytes")
    return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)


def _episode_to_wire(episode: Episode) -> _WireEpisode:
    steps = episode.steps
    for step in steps:
        if not len(step.token_ids) == len(step.logprobs) == len(step.policy_versions):
            raise ValueError(
                f"a step has {len(step.token_ids)} token ids, {len(step.logprobs)} log-probs and "
                f"{len(step.policy_versions)} policy versions: there must be one of each a token"
            )
    return _WireEpisode(
        observations=[step.observation for step in steps],
        actions=[step.action for step in steps],
        state_keys=[step.state_key for step in steps],
        rewards=[step.reward for step in steps],
        valid_actions=[step.valid_action for step in steps],
        true_states=[step.true_state for step in steps],
        prompt_lengths=_int_bytes([np.array([len(step.prompt_token_ids) for step in steps])]),
        action_lengths=_int_bytes([np.array([len(step.token_ids) for step in steps])]),
        prompt_token_ids=_int_bytes(step.prompt_token_ids for step in steps),
        token_ids=_int_bytes(step.token_ids for step in steps),
        logprobs=b"".join(np.ascontiguousarray(step.logprobs, dtype="<f4").tobytes() for step in steps),
        policy_versions=_int_bytes(step.policy_versions for step in steps),
        end=episode.end,
        final_state_key=episode.final_state_key,
        won=episode.won,
        score=episode.score,
        optimal_steps=episode.optimal_steps,
        final_observation=episode.final_observation,
    )


def _episode_from_wire(wire: _WireEpisode) -> Episode:
    prompt_lengths, action_lengths = _ints(wire.prompt_lengths), _ints(wire.action_lengths)
    prompts = _split(_ints(wire.prompt_token_ids), prompt_lengths)
    tokens = _split(_ints(wire.token_ids), action_lengths)
    logprobs = _split_floats(np.frombuffer(wire.logprobs, dtype="<f4").astype(np.float32), action_lengths)
    versions = _split(_ints(wire.policy_versions), action_lengths)
    columns = (
        wire.observations,
        wire.actions,
        wire.state_keys,
        prompts,
        tokens,
        logprobs,
        versions,
        wire.rewards,
        wire.valid_actions,
        wire.true_states,
    )
    return Episode(
        # `strict` turns columns of unequal length, which only damage can make, into a ValueError.
        steps=tuple(Step(*row) for row in zip(*columns, strict=True)),
        end=wire.end,
        final_state_key=wire.final_state_key,
        won=wire.won,
        score=wire.score,
        optimal_steps=wire.optimal_steps,
        final_observation=wire.final_observation,
    )


def _int_bytes(arrays: Iterable[NDArray[np.integer]]) -> bytes:
    return b"".join(np.ascontiguousarray(array, dtype="<i4").tobytes() for array in arrays)


def _ints(blob: bytes) -> IntArray:
    return np.frombuffer(blob, dtype="<i4").astype(np.int32)


def _split(flat: IntArray, lengths: IntArray) -> Sequence[IntArray]:
    return [flat[start:end] for start, end in _spans(len(flat), lengths)]


def _split_floats(flat: FloatArray, lengths: IntArray) -> Sequence[FloatArray]:
    return [flat[start:end] for start, end in _spans(len(flat), lengths)]


def _spans(total: int, lengths: IntArray) -> list[tuple[int, int]]:
    ends = np.cumsum(lengths, dtype=np.int64)
    whole = int(ends[-1]) if len(ends) else 0
    if total != whole or (len(lengths) and int(lengths.min()) < 0):
        raise ValueError(f"an array of {total} elements does not match the lengths, which sum to {whole}")
    return list(zip((ends - lengths).tolist(), ends.tolist(), strict=True))
