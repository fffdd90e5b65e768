"""The credit record of a training step: what its groups were, and the credit that each of their steps got.

One file a training step in the run's folder (`shared.run_layout`), written by the trainer and read by the credit
viewer. Layout: a checksummed zstd frame that holds one msgpack array; a group is in it as `shared.buffer.codec` has it,
its numbers as raw little-endian arrays beside it. `open_credit_record` reads all numbers but unpacks no group, so that
one group can be shown without paying for the others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from shared.buffer.codec import CodecError, decode_group, encode_group
from shared.files import write_atomically
from shared.trajectory import Group

FORMAT_VERSION = 1
MAX_DECODED_BYTES = 1 << 32
"""A record that unpacks to more is refused as damaged."""

_FORMAT = "gagpo-credit"
_LEVEL = 1  # the groups in it are compressed already

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class CreditRecordError(ValueError):
    """A credit record that is damaged, or of a format that this release does not know."""


@dataclass(frozen=True, slots=True, eq=False)
class CreditNumbers:
    """The credit of one group's S steps. Every array has shape (S,): the steps of episode 0, then of episode 1, …

    Rewards and what follows from them are in units of the shaped reward. What returns, values, deltas and raw
    advantages are differs a little between algorithms: docs/algorithms.md says.
    """

    rewards: Floats
    """r, shaped: scaled by ``reward.success``, less the penalty of an invalid action."""
    returns: Floats
    """G: discounted sum of the rewards from this step on; where episodes count as a whole, R: the plain sum of all."""
    values: Floats
    """V of the state before the step: what the return is compared with."""
    deltas: Floats
    """δ: one-step TD error; without bootstrapping, the return less the value."""
    raw: Floats
    """A: the advantage before normalisation."""
    advantages: Floats
    """Â: what the loss used."""
    states: Ints
    """Number of the state before the step: equal, also between groups of a record, exactly where the recipe's grouping
    takes two steps' states for the same."""
    ratios: Floats
    """ρ when the update last saw the step; NaN where the step was not trained on. The mean over its tokens where the
    ratio is of tokens."""
    clipped: Bools
    """Whether the clip took the gradient away then; for ratios of tokens, from any of the step's tokens."""

    def __post_init__(self) -> None:
        """Raise `ValueError` unless all arrays are of one length."""
        lengths = {name: len(array) for name, array in self.named().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"a group's numbers have one entry a step each, these are of different lengths: {lengths}")

    def __len__(self) -> int:
        return len(self.rewards)

    def named(self) -> dict[str, NDArray[np.generic]]:
        """The arrays by their names, as columns of a table."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, eq=False)
class CreditedGroup:
    """One group of a training step with its credit."""

    group: Group
    credit: CreditNumbers

    def __post_init__(self) -> None:
        """Raise `ValueError` unless there are numbers for every step."""
        steps = sum(len(episode.steps) for episode in self.group.episodes)
        if len(self.credit) != steps:
            raise ValueError(f"group {self.group.index} has {steps} steps and credit for {len(self.credit)}")


@dataclass(frozen=True, slots=True, eq=False)
class CreditRecord:
    """One training step."""

    step: int
    """The training step, from 0."""
    version: int
    """Version of the weights that it made."""
    algorithm: str
    """The recipe's ``algorithm.name``."""
    groups: tuple[CreditedGroup, ...]


class GroupHeading(msgspec.Struct, frozen=True, array_like=True):
    """What a stored group is, told without unpacking it."""

    index: int
    """Its place within the training step: `Group.index`."""
    environment: str
    task_id: str
    task_type: str
    lengths: tuple[int, ...]
    """Steps of each episode."""
    won: tuple[bool, ...]
    """Of each episode."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredGroup:
    """A group of a record as it lies in the file."""

    heading: GroupHeading
    credit: CreditNumbers
    payload: bytes
    """The group itself, as `shared.buffer.codec` has it."""

    def unpack(self) -> Group:
        """The group with its texts and tokens. Raises `CreditRecordError`."""
        try:
            return decode_group(self.payload)
        except CodecError as error:
            raise CreditRecordError(f"group {self.heading.index}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class StoredRecord:
    """A record whose groups are still packed."""

    step: int
    version: int
    algorithm: str
    groups: tuple[StoredGroup, ...]

    def unpack(self) -> CreditRecord:
        """The whole record. Raises `CreditRecordError`."""
        groups = tuple(CreditedGroup(stored.unpack(), stored.credit) for stored in self.groups)
        return CreditRecord(self.step, self.version, self.algorithm, groups)


class _WireGroup(msgspec.Struct, array_like=True, frozen=True):
    heading: GroupHeading
    payload: bytes
    rewards: bytes
    returns: bytes
    values: bytes
    deltas: bytes
    raw: bytes
    advantages: bytes
    states: bytes
    ratios: bytes
    clipped: bytes


class _WireRecord(msgspec.Struct, array_like=True, frozen=True):
    format: str
    format_version: int
    step: int
    version: int
    algorithm: str
    groups: list[_WireGroup]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_WireRecord)


def encode_credit_record(record: CreditRecord) -> bytes:
    """The bytes of a record's file."""
    wire = _WireRecord(
        format=_FORMAT,
        format_version=FORMAT_VERSION,
        step=record.step,
        version=record.version,
        algorithm=record.algorithm,
        groups=[_group_to_wire(one.group, one.credit) for one in record.groups],
    )
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(_encoder.encode(wire))


def decode_credit_record(content: bytes) -> StoredRecord:
    """The record that `encode_credit_record` made the bytes from. Raises `CreditRecordError`."""
    try:
        size = zstandard.frame_content_size(content)
        if not 0 <= size <= MAX_DECODED_BYTES:
            raise CreditRecordError(f"the frame claims a size of {size} bytes")
        wire = _decoder.decode(zstandard.ZstdDecompressor().decompress(content, allow_extra_data=False))
        if (wire.format, wire.format_version) != (_FORMAT, FORMAT_VERSION):
            raise CreditRecordError(
                f"format {wire.format!r}, version {wire.format_version}, is not the {_FORMAT!r}, version "
                f"{FORMAT_VERSION}, that this release reads: read it with the release that wrote it"
            )
        groups = tuple(_group_from_wire(group) for group in wire.groups)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise CreditRecordError(f"damaged credit record of {len(content)} bytes: {error}") from error
    return StoredRecord(wire.step, wire.version, wire.algorithm, groups)


def write_credit_record(file: Path, record: CreditRecord) -> None:
    """Write a record that readers see whole or not at all, in the place of one that was there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, encode_credit_record(record))


def open_credit_record(file: Path) -> StoredRecord:
    """A record whose groups are unpacked one by one. Raises `FileNotFoundError`, and `CreditRecordError` with its name.

    Reads the whole file: a few megabytes for a training step of 16 groups of 8 episodes.
    """
    try:
        return decode_credit_record(file.read_bytes())
    except CreditRecordError as error:
        raise CreditRecordError(f"{file}: {error}") from error


def read_credit_record(file: Path) -> CreditRecord:
    """A whole record. Raises `FileNotFoundError` and `CreditRecordError`."""
    return open_credit_record(file).unpack()


def credit_rows(groups: Iterable[CreditedGroup]) -> Iterator[dict[str, object]]:
    """One row a step, for a table: ``pandas.DataFrame(credit_rows(record.groups))``."""
    for one in groups:
        group = one.group
        columns = {name: array.tolist() for name, array in one.credit.named().items()}
        place = 0
        for number, episode in enumerate(group.episodes):
            for turn, step in enumerate(episode.steps):
                yield {
                    "group": group.index,
                    "environment": group.environment,
                    "task_id": group.task_id,
                    "task_type": group.task_type,
                    "episode": number,
                    "won": episode.won,
                    "step": turn,
                    "state_key": step.state_key,
                    "action": step.action,
                    "valid_action": step.valid_action,
                    **{name: column[place] for name, column in columns.items()},
                }
                place += 1


def _group_to_wire(group: Group, credit: CreditNumbers) -> _WireGroup:
    heading = GroupHeading(
        index=group.index,
        environment=group.environment,
        task_id=group.task_id,
        task_type=group.task_type,
        lengths=tuple(len(episode.steps) for episode in group.episodes),
        won=tuple(episode.won for episode in group.episodes),
    )
    return _WireGroup(
        heading=heading,
        payload=encode_group(group),
        rewards=_to_bytes(credit.rewards, "<f8"),
        returns=_to_bytes(credit.returns, "<f8"),
        values=_to_bytes(credit.values, "<f8"),
        deltas=_to_bytes(credit.deltas, "<f8"),
        raw=_to_bytes(credit.raw, "<f8"),
        advantages=_to_bytes(credit.advantages, "<f8"),
        states=_to_bytes(credit.states, "<i8"),
        ratios=_to_bytes(credit.ratios, "<f8"),
        clipped=_to_bytes(credit.clipped, "|b1"),
    )


def _group_from_wire(wire: _WireGroup) -> StoredGroup:
    heading = wire.heading
    try:
        credit = CreditNumbers(
            rewards=_floats(wire.rewards),
            returns=_floats(wire.returns),
            values=_floats(wire.values),
            deltas=_floats(wire.deltas),
            raw=_floats(wire.raw),
            advantages=_floats(wire.advantages),
            states=np.frombuffer(wire.states, "<i8").astype(np.int64),
            ratios=_floats(wire.ratios),
            clipped=np.frombuffer(wire.clipped, "|b1"),
        )
    except ValueError as error:
        raise CreditRecordError(f"damaged numbers of group {heading.index}: {error}") from error
    if len(credit) != sum(heading.lengths) or len(heading.won) != len(heading.lengths):
        raise CreditRecordError(
            f"group {heading.index} has {sum(heading.lengths)} steps in {len(heading.lengths)} episodes, and credit "
            f"for {len(credit)} steps of {len(heading.won)} episodes"
        )
    return StoredGroup(heading, credit, wire.payload)


def _to_bytes(array: NDArray[np.generic], dtype: str) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def _floats(blob: bytes) -> Floats:
    return np.frombuffer(blob, "<f8").astype(np.float64)
