"""What a job leaves behind: metrics, evaluations and checkpoints."""

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse

from services.trainer.server.archive import FolderArchive
from services.trainer.server.evaluation import When
from services.trainer.server.service import TrainerService, trainer
from shared.problems import ProblemError
from shared.schemas.evaluation import EvaluationReport
from shared.schemas.job import Checkpoint, CheckpointList

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["files"])
Service = Annotated[TrainerService, Depends(trainer)]

TRAINER_STATE = "trainer"
"""The subfolder of a checkpoint with the optimizer's state."""

_FROM = re.compile(r"bytes=(\d{1,18})-")


@router.get("/metrics", response_class=Response, responses={200: {"content": {"application/jsonl": {}}}})
async def metrics(job_id: str, service: Service) -> Response:
    """One JSON object a line for each training step done."""
    file = service.folder(await service.job(job_id)).metrics
    content = await asyncio.to_thread(file.read_bytes) if file.exists() else b""
    return Response(content, media_type="application/jsonl")


@router.get("/evaluations/{when}")
async def evaluation(job_id: str, when: When, service: Service) -> EvaluationReport:
    """The report of the evaluation before or after training: the figures, and every episode."""
    file = service.folder(await service.job(job_id)).evaluation(when)
    if not file.exists():
        detail = f"when = {when.value!r}: job {job_id} has no such evaluation (yet); its events say when one is there."
        raise ProblemError(404, "no-evaluation", "There is no such evaluation", detail)
    return EvaluationReport.model_validate_json(await asyncio.to_thread(file.read_bytes))


@router.get("/checkpoints")
async def checkpoints(job_id: str, service: Service) -> CheckpointList:
    """The checkpoints that are kept, the newest last."""
    folder = service.folder(await service.job(job_id))
    return CheckpointList(checkpoints=await asyncio.to_thread(folder.checkpoints))


@router.get(
    "/checkpoints/{version}/archive",
    response_class=Response,
    responses={
        200: {"content": {"application/x-tar": {}}},
        206: {"description": "The rest, behind the range's start."},
    },
)
async def archive(
    job_id: str,
    version: int,
    service: Service,
    trainer_state: Annotated[bool, Query(description="With the optimizer's state, twice the model's size.")] = True,
    wanted: Annotated[str | None, Header(alias="range")] = None,
    if_range: Annotated[str | None, Header(alias="if-range")] = None,
) -> Response:
    """A checkpoint as an uncompressed tar: a Hugging Face folder, and under ``trainer/`` what training on needs.

    A download that was cut goes on with ``Range: bytes=<received>-`` and the ETag as ``If-Range``.
    """
    folder = service.folder(await service.job(job_id))
    try:
        found = FolderArchive(folder.checkpoint(version), without=None if trainer_state else TRAINER_STATE)
    except FileNotFoundError as error:
        kept = await asyncio.to_thread(folder.checkpoints)
        raise _no_checkpoint(job_id, version, kept) from error
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f'attachment; filename="{job_id}-{version:06d}.tar"',
        "content-length": str(found.size),
        "etag": found.etag,
    }
    start = _start(wanted, if_range, found)
    if start:
        headers["content-length"] = str(found.size - start)
        headers["content-range"] = f"bytes {start}-{found.size - 1}/{found.size}"
    status = 206 if start else 200
    return StreamingResponse(found.chunks(start), status, headers, media_type="application/x-tar")


def _start(wanted: str | None, if_range: str | None, found: FolderArchive) -> int:
    """The first byte to send; 0, the whole, for any range but an open one that still fits."""
    match = _FROM.fullmatch(wanted or "")
    if match is None or if_range not in (None, found.etag):
        return 0
    start = int(match[1])
    return start if start < found.size else 0


def _no_checkpoint(job: str, version: int, kept: list[Checkpoint]) -> ProblemError:
    versions = ", ".join(str(one.version) for one in kept) or "none yet"
    detail = f"version = {version}: job {job} has no such checkpoint; it keeps: {versions}."
    return ProblemError(404, "unknown-checkpoint", "There is no such checkpoint", detail)
