"""The table of a job's states against what it has to say."""

import itertools

import pytest

from shared.schemas.job import TRANSITIONS, JobState

QUEUED, RUNNING, INTERRUPTED = JobState.QUEUED, JobState.RUNNING, JobState.INTERRUPTED
COMPLETED, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED

LEGAL = {
    (QUEUED, RUNNING),
    (QUEUED, FAILED),
    (QUEUED, CANCELLED),
    (RUNNING, COMPLETED),
    (RUNNING, FAILED),
    (RUNNING, CANCELLED),
    (RUNNING, INTERRUPTED),
    (INTERRUPTED, RUNNING),
    (INTERRUPTED, FAILED),
    (INTERRUPTED, CANCELLED),
    (FAILED, QUEUED),
    (CANCELLED, QUEUED),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(JobState, JobState)))
def test_every_pair_of_states_is_legal_or_not(before: JobState, after: JobState) -> None:
    assert (after in TRANSITIONS[before]) == ((before, after) in LEGAL)


def test_only_what_is_over_waits_for_somebody_to_resume_it() -> None:
    assert {state for state in JobState if state.over} == {COMPLETED, FAILED, CANCELLED}
    assert all(TRANSITIONS[state] <= {QUEUED} for state in JobState if state.over)
