"""What is served: environments and their tasks."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.env_server.routes.common import env_server, problems
from services.env_server.wire import answer, encode_message, wanted_encoding
from shared.schemas.environment import EnvironmentList, TaskPage

router = APIRouter(prefix="/v1/environments", tags=["environments"])


@router.get("", response_model=EnvironmentList)
async def environments(request: Request) -> Response:
    """Every environment: splits and sizes, step limit, action format, options, versions and the data's digest."""
    wanted = wanted_encoding(request)
    listed = EnvironmentList(environments=list(env_server(request).catalogue.descriptions.values()))
    return answer(encode_message(listed, wanted), wanted)


@router.get(
    "/{environment}/tasks",
    response_model=TaskPage,
    responses=problems(s404="unknown-environment, unknown-split.", s422="invalid-request."),
)
async def tasks(
    request: Request,
    environment: str,
    split: Annotated[str, Query(description="One of the environment's splits.")],
    offset: Annotated[int, Query(ge=0, le=2**53, description="Index of the first task.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many tasks at most.")] = 100,
) -> Response:
    """The task ids of a split, in their order."""
    wanted = wanted_encoding(request)
    page = env_server(request).catalogue.page(environment, split, offset, limit)
    return answer(encode_message(page, wanted), wanted)
