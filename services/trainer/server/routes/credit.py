"""Where a training step's credit went: its groups, one group as a picture, one step with everything behind it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Depends

from services.trainer.server.credit_answers import cell_detail, group_credit, step_credit
from services.trainer.server.credit_store import shown_steps
from services.trainer.server.run_folder import RunFolder
from services.trainer.server.service import TrainerService, trainer, unknown_job
from shared.credit_record import CreditRecordError, StoredRecord
from shared.problems import ProblemError
from shared.schemas.credit import CellDetail, CreditSteps, GroupCredit, StepCredit

router = APIRouter(prefix="/v1/jobs/{job_id}/credit", tags=["credit"])
Service = Annotated[TrainerService, Depends(trainer)]


@router.get("")
async def steps(job_id: str, service: Service) -> CreditSteps:
    """The training steps whose credit is kept: the latest ones, as many as ``tracking.credit_steps`` says."""
    folder = service.folder(await service.job(job_id))
    return CreditSteps(steps=await asyncio.to_thread(folder.credit_steps))


@router.get("/{step}")
async def groups(job_id: str, step: int, service: Service) -> StepCredit:
    """The groups of a training step."""
    folder = service.folder(await service.job(job_id))

    def answer() -> StepCredit:
        with _readable():
            return step_credit(_record(service, folder, step))

    return await asyncio.to_thread(answer)


@router.get("/{step}/groups/{index}")
async def group(job_id: str, step: int, index: int, service: Service) -> GroupCredit:
    """A group: its episodes as rows, their steps as cells."""
    folder = service.folder(await service.job(job_id))

    def answer() -> GroupCredit:
        with _readable():
            record = _record(service, folder, step)
            place = _place(record, index)
            return group_credit(record, place, service.credit.group(record.groups[place]))

    return await asyncio.to_thread(answer)


@router.get("/{step}/groups/{index}/episodes/{episode}/steps/{turn}")
async def cell(job_id: str, step: int, index: int, episode: int, turn: int, service: Service) -> CellDetail:
    """A step of an episode: what the policy was shown and said, its credit, and the steps that shared its state."""
    folder = service.folder(await service.job(job_id))
    recipe = await service.store.recipe(job_id)
    if recipe is None:
        raise unknown_job(job_id)  # it was deleted meanwhile
    model = recipe.model.path

    def answer() -> CellDetail:
        with _readable():
            record = _record(service, folder, step)
            place = _place(record, index)
            _check_step(record, place, episode, turn)
            tokenizer = service.credit.tokenizer(model, folder)
            return cell_detail(record, place, service.credit.group, (episode, turn), tokenizer)

    return await asyncio.to_thread(answer)


@contextmanager
def _readable() -> Iterator[None]:
    """Answer a record that cannot be read with a problem that says why."""
    try:
        yield
    except CreditRecordError as error:
        raise ProblemError(500, "credit-unreadable", "The credit record cannot be read", str(error)) from error


def _record(service: TrainerService, folder: RunFolder, step: int) -> StoredRecord:
    """The record of a training step. Raises a 404 problem, and `CreditRecordError`."""
    try:
        return service.credit.record(folder, step)
    except FileNotFoundError as error:
        kept = folder.credit_steps()
        there = f"it is kept of {shown_steps(kept)}" if kept else "none is kept (yet)"
        detail = f"step = {step}: job {folder.job} has no credit of that training step; {there}. "
        detail += "The recipe's tracking.credit_steps says how many of the latest steps keep theirs."
        raise ProblemError(404, "unknown-credit-step", "There is no credit of that step", detail) from error


def _place(record: StoredRecord, index: int) -> int:
    """Where the group of that index is in the record. Raises a 404 problem."""
    indices = [stored.heading.index for stored in record.groups]
    if index not in indices:
        detail = f"group = {index}: training step {record.step} has the groups {shown_steps(indices)}."
        raise ProblemError(404, "unknown-credit-group", "There is no such group", detail)
    return indices.index(index)


def _check_step(record: StoredRecord, place: int, episode: int, turn: int) -> None:
    """Raise a 404 problem unless the group has that step."""
    heading = record.groups[place].heading
    if not 0 <= episode < len(heading.lengths):
        there = f"it has the episodes {shown_steps(range(len(heading.lengths)))}"
        detail = f"episode = {episode}: group {heading.index} of training step {record.step} has no such one; {there}."
        raise ProblemError(404, "unknown-credit-episode", "There is no such episode", detail)
    if not 0 <= turn < heading.lengths[episode]:
        there = f"it has the steps {shown_steps(range(heading.lengths[episode]))}"
        detail = f"turn = {turn}: episode {episode} of group {heading.index} has no such step; {there}."
        raise ProblemError(404, "unknown-credit-turn", "There is no such step", detail)
