"""One round of steps, each of another session: judged against the journal, run in the workers, journaled, answered.

Every session of the round is locked by this run. Nothing is answered before it is in the journal. From the moment an
action is sent to a worker until the journal has it, the session counts as not live: whatever breaks in between (a
worker, Redis, the request itself), the next request rebuilds the episode from the journal.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from services.env_server import faults
from services.env_server.episodes import episode_over
from services.env_server.journal import Entry, JournalUnavailableError, Record
from services.env_server.sessions import ATTEMPTS, Session, SessionTable, problem_fragment, transcode
from services.env_server.worker_protocol import LOST, Encoding, Item, Outcome, RunItems
from services.env_server.worker_slot import WorkerLostError, WorkerSlot
from shared.problems import ProblemError


@dataclass(slots=True)
class Step:
    """One step that a client asks for, and in the end its answer."""

    session_id: str
    action: str
    step_index: int
    answer: bytes | ProblemError | None = None
    crashes: int = 0
    """How often a worker died while at this step."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A step that a worker has to take, or to look up (``taken``) in the session's past."""

    step: Step
    session: Session
    item: Item
    taken: bool


_Stepped = tuple[_Work, int, Outcome]
"""What a worker has taken, and in which generation of the session's slot."""


async def run_steps(table: SessionTable, steps: Sequence[Step], encoding: Encoding) -> None:
    """Answer every step, each session's in the order given. Raises a `ProblemError` that concerns all of them."""
    with table.pending(len(steps)), table.metrics.step_seconds.time():
        for steps_of_round in _rounds(steps):
            async with table.locked(step.session_id for step in steps_of_round) as held:
                pairs = []
                for step in steps_of_round:
                    session = held[step.session_id]
                    if isinstance(session, ProblemError):
                        step.answer = session
                    else:
                        pairs.append((step, session))
                await _Round(table, encoding).run(pairs)
    for step in steps:
        if isinstance(step.answer, ProblemError):
            table.metrics.step_problems.labels(step.answer.kind).inc()


def encoded(step: Step, encoding: Encoding) -> bytes:
    """An answered step as an item of a batch."""
    assert step.answer is not None
    return step.answer if isinstance(step.answer, bytes) else problem_fragment(step.answer, encoding)


def _rounds(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in rounds that have each session once at most, in the order given."""
    rounds: list[list[Step]] = []
    taken: dict[str, int] = {}
    for step in steps:
        number = taken.get(step.session_id, 0)
        taken[step.session_id] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(step)
    return rounds


class _Round:
    def __init__(self, table: SessionTable, encoding: Encoding) -> None:
        self._table = table
        self._encoding = encoding

    async def run(self, pairs: list[tuple[Step, Session]]) -> None:
        """Answer every step; those that a dying worker or another replica disturbed are tried again."""
        for _ in range(ATTEMPTS):
            work = await self._judge(pairs)
            await self._work(work)
            pairs = [pair for pair in pairs if pair[0].answer is None]
            if not pairs:
                return
        for step, _ in pairs:
            step.answer = faults.worker_unavailable(self._table.limits.retry_after_s)

    async def _judge(self, pairs: list[tuple[Step, Session]]) -> list[_Work]:
        """Answer what needs no worker; the journal is read for whatever does not simply go on.

        What goes on need not be looked up: another replica that stepped or deleted the session makes the append fail.
        """
        work = []
        doubtful = []
        for step, session in pairs:
            next_one = session.birth is not None and step.step_index == session.next_index
            if next_one and session.live and not session.over:
                item = Item(session.session_id, step.step_index, step.action)
                work.append(_Work(step, session, item, taken=False))
            else:
                doubtful.append((step, session))
        if doubtful:
            records = await self._table.load([session for _, session in doubtful])
            for (step, session), record in zip(doubtful, records, strict=True):
                judged = self._judge_by_record(step, session, record)
                if judged is not None:
                    work.append(judged)
        return work

    def _judge_by_record(self, step: Step, session: Session, record: Record | None) -> _Work | None:
        if record is None:
            step.answer = faults.unknown_session(step.session_id)
            return None
        past, index = record.actions, step.step_index
        if index > len(past) or (index < len(past) and past[index] != step.action):
            step.answer = faults.step_conflict(step.session_id, index, len(past))
        elif index == len(past) - 1 and session.last:
            self._answer_again(step, session)
        elif index == len(past) - 1:
            item = Item(session.session_id, len(past), None, record.birth, past)
            return _Work(step, session, item, taken=True)
        elif index < len(past):
            item = Item(session.session_id, index + 1, None, record.birth, past[: index + 1], keep=False)
            return _Work(step, session, item, taken=True)
        elif session.over and session.live:
            step.answer = faults.from_fault(episode_over(len(past)))
        elif session.live:
            return _Work(step, session, Item(session.session_id, index, step.action), taken=False)
        else:
            item = Item(session.session_id, index, step.action, record.birth, past)
            return _Work(step, session, item, taken=False)
        return None

    def _answer_again(self, step: Step, session: Session) -> None:
        step.answer = transcode(session.last, session.last_encoding, self._encoding)
        self._table.metrics.retries.inc()

    async def _work(self, work: Sequence[_Work]) -> None:
        """Run the work in its workers and journal what was taken."""
        by_slot: dict[int, tuple[WorkerSlot, list[_Work]]] = {}
        for one in work:
            session = one.session
            try:
                slot = session.slot if session.live and session.slot is not None else await self._table.place(session)
            except ProblemError as problem:
                one.step.answer = problem
                continue
            by_slot.setdefault(slot.number, (slot, []))[1].append(one)
        calls = [self._call(slot, group) for slot, group in by_slot.values()]
        stepped = await calls[0] if len(calls) == 1 else list(chain(*await asyncio.gather(*calls)))
        await self._journal(stepped)

    async def _call(self, slot: WorkerSlot, work: list[_Work]) -> list[_Stepped]:
        """Run work in one worker; what has to be journaled."""
        for one in work:
            if one.item.keep:
                one.session.generation = -1
        generation = slot.generation
        try:
            outcomes = (await slot.call(RunItems([one.item for one in work], self._encoding))).outcomes
        except WorkerLostError as error:
            self._blame(error, work)
            return []
        stepped = []
        for one, outcome in zip(work, outcomes, strict=True):
            if one.item.birth is not None:
                self._table.metrics.rebuilt.inc()
            if outcome.fault is not None:
                self._fault(one, generation, outcome)
            elif not one.taken:
                stepped.append((one, generation, outcome))
            else:
                one.step.answer = outcome.fragment
                self._table.metrics.retries.inc()
                if one.item.keep:
                    self._table.commit(one.session, generation, outcome, self._encoding)
        return stepped

    def _fault(self, one: _Work, generation: int, outcome: Outcome) -> None:
        fault = outcome.fault
        assert fault is not None
        if fault.kind == LOST:
            return  # the next attempt reads the journal
        one.step.answer = faults.from_fault(fault)
        if fault.kind == "episode-over" and one.item.keep:
            one.session.terminated, one.session.truncated = outcome.terminated, outcome.truncated
            one.session.generation = generation

    def _blame(self, error: WorkerLostError, work: Sequence[_Work]) -> None:
        """The step that the worker was at: broken off when it hung, tried once more when the worker crashed."""
        if error.culprit is None:
            return
        step = work[error.culprit].step
        step.crashes += 1
        what = f"Step {step.step_index} of session {step.session_id}"
        if error.reason == "deadline":
            step.answer = faults.deadline(what)
        elif step.crashes >= 2:
            step.answer = faults.crashed(what)

    async def _journal(self, stepped: Sequence[_Stepped]) -> None:
        """Append what was taken, in one round trip, and answer it."""
        if not stepped:
            return
        entries = [Entry(one.step.session_id, one.step.step_index, one.step.action) for one, _, _ in stepped]
        try:
            appended = await self._table.journal.append(entries)
        except JournalUnavailableError as error:
            problem = faults.journal_unavailable(str(error), self._table.limits.retry_after_s)
            for one, _, _ in stepped:
                one.step.answer = problem
            return
        taken: Counter[str] = Counter()
        for (one, generation, outcome), fits in zip(stepped, appended, strict=True):
            session, step = one.session, one.step
            if not fits:
                self._table.metrics.conflicts.inc()
                continue  # another replica was faster; the next attempt reads the journal
            step.answer = outcome.fragment
            session.next_index = step.step_index + 1
            self._table.commit(session, generation, outcome, self._encoding)
            assert session.birth is not None
            taken[session.birth.environment] += 1
            if session.over:
                end = "terminated" if session.terminated else "truncated"
                self._table.metrics.episodes.labels(session.birth.environment, end).inc()
        for environment, count in taken.items():
            self._table.metrics.steps.labels(environment).inc(count)
