"""The credit record's file: what goes in comes out, and damage is told from content."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shared.credit_record import (
    CreditedGroup,
    CreditNumbers,
    CreditRecord,
    CreditRecordError,
    credit_rows,
    decode_credit_record,
    encode_credit_record,
    open_credit_record,
    read_credit_record,
    write_credit_record,
)
from shared.run_layout import RunFiles
from tests.credit_records import make_credit, make_record
from tests.trajectories import assert_same_group, make_group

SIZE = 6
_floats = arrays.arrays(np.float64, SIZE, elements=st.floats(allow_nan=True))
_numbers = st.builds(
    CreditNumbers,
    rewards=_floats,
    returns=_floats,
    values=_floats,
    deltas=_floats,
    raw=_floats,
    advantages=_floats,
    states=arrays.arrays(np.int64, SIZE, elements=st.integers(-(2**63), 2**63 - 1)),
    ratios=_floats,
    clipped=arrays.arrays(np.bool_, SIZE),
)


def assert_same_numbers(one: CreditNumbers, other: CreditNumbers) -> None:
    for name, array in one.named().items():
        assert array.dtype == other.named()[name].dtype
        np.testing.assert_array_equal(array, other.named()[name], err_msg=name)


@settings(deadline=None)
@given(_numbers)
def test_any_numbers_survive_the_round_trip(numbers: CreditNumbers) -> None:
    record = CreditRecord(7, 8, "gigpo", (CreditedGroup(make_group(episodes=2, steps=3), numbers),))
    found = decode_credit_record(encode_credit_record(record)).unpack()
    assert (found.step, found.version, found.algorithm) == (7, 8, "gigpo")
    assert_same_numbers(found.groups[0].credit, numbers)
    assert_same_group(found.groups[0].group, record.groups[0].group)


def test_a_file_is_read_as_it_was_written_and_replaced_by_the_next(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / "run")
    write_credit_record(files.credit_record(3), make_record(3, groups=5))
    write_credit_record(files.credit_record(3), make_record(3, groups=2))
    write_credit_record(files.credit_record(12), make_record(12))
    assert files.credit_steps() == [3, 12]
    assert [path.name for path in sorted(files.credit_folder.iterdir())] == [
        "step-000003.msgpack.zst",
        "step-000012.msgpack.zst",
    ], "nothing half-written is left"
    assert len(read_credit_record(files.credit_record(3)).groups) == 2
    with pytest.raises(FileNotFoundError):
        read_credit_record(files.credit_record(4))


def test_a_run_without_records_has_no_steps(tmp_path: Path) -> None:
    assert RunFiles(tmp_path).credit_steps() == []


def test_groups_are_told_without_unpacking_them() -> None:
    record = make_record(groups=3, episodes=4, steps=5)
    stored = decode_credit_record(encode_credit_record(record))
    broken = replace(stored.groups[1], payload=b"GG\x02 no group")
    for one, whole in zip(stored.groups, record.groups, strict=True):
        assert one.heading.index == whole.group.index
        assert one.heading.task_id == whole.group.task_id
        assert one.heading.lengths == (5, 5, 5, 5)
        assert one.heading.won == (True,) * 4
        assert_same_numbers(one.credit, whole.credit)
    assert_same_group(stored.groups[2].unpack(), record.groups[2].group)
    with pytest.raises(CreditRecordError, match="group 1: damaged group"):
        broken.unpack()


@settings(deadline=None)
@given(st.data())
def test_a_flipped_byte_is_noticed_or_changes_nothing(data: st.DataObject) -> None:
    record = make_record(groups=1, episodes=1, steps=2)
    content = bytearray(encode_credit_record(record))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = decode_credit_record(bytes(content)).unpack()
    except CreditRecordError:
        return
    assert_same_numbers(found.groups[0].credit, record.groups[0].credit)
    assert_same_group(found.groups[0].group, record.groups[0].group)


@pytest.mark.parametrize("keep", [0, 3, 20, -1])
def test_a_file_cut_short_is_named(keep: int, tmp_path: Path) -> None:
    file = tmp_path / "step-000000.msgpack.zst"
    file.write_bytes(encode_credit_record(make_record())[:keep])
    with pytest.raises(CreditRecordError, match="step-000000"):
        open_credit_record(file)


def test_a_record_of_another_format_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.credit_record.FORMAT_VERSION", 9)
    content = encode_credit_record(make_record())
    monkeypatch.undo()
    with pytest.raises(CreditRecordError, match="version 9, is not the 'gagpo-credit', version 1,"):
        decode_credit_record(content)


def test_numbers_that_do_not_fit_the_steps_are_refused() -> None:
    group = make_group(episodes=2, steps=3)
    with pytest.raises(ValueError, match="has 6 steps and credit for 4"):
        CreditedGroup(group, make_credit(make_group(episodes=2, steps=2)))
    with pytest.raises(ValueError, match="different lengths"):
        replace(make_credit(group), raw=np.zeros(5))


def test_a_table_has_one_row_a_step_in_order() -> None:
    record = make_record(groups=2, episodes=3, steps=4)
    rows = list(credit_rows(record.groups))
    assert [(row["group"], row["episode"], row["step"]) for row in rows] == [
        (group, episode, step) for group in range(2) for episode in range(3) for step in range(4)
    ]
    second = record.groups[1]
    assert [row["advantages"] for row in rows[12:]] == second.credit.advantages.tolist()
    assert rows[12 + 5]["action"] == second.group.episodes[1].steps[1].action
