"""The versioned weights: one push at a time, checked in full before anything changes, applied during a pause."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, ValidationError

from services.policy_server.checkpoint import Layout, check_digest, read_shapes
from services.policy_server.engine import Running
from services.policy_server.metrics import PolicyMetrics
from services.policy_server.settings import PolicySettings
from services.policy_server.transports import FileTransport, HttpTransport
from shared.problems import ProblemError
from shared.schemas.policy import WeightFile, WeightNccl, WeightPush, WeightState, WeightStream, WeightVersion
from shared.weights_digest import digest_of_folder

logger = logging.getLogger(__name__)

HISTORY = 32
_INITIAL: Final = "initial"


class Pointer(BaseModel):
    """The JSON file ``weights_pointer``: which weights are the latest."""

    version: int = Field(ge=0)
    digest: str
    path: str
    """Folder; a relative one starts at the pointer's own folder."""


class WeightStore:
    """Which weights the engine has, and the only way to change them."""

    def __init__(
        self, settings: PolicySettings, running: Running, fail: Callable[[str], None], metrics: PolicyMetrics
    ) -> None:
        """``fail`` is called when weights were half applied, after which the engine must not serve."""
        self._settings = settings
        self._running = running
        self._fail = fail
        self._metrics = metrics
        self._lock = asyncio.Lock()
        self._layout = Layout.of_model(settings.model)
        self._history: deque[WeightVersion] = deque(maxlen=HISTORY)
        self._initial_digest = ""
        self._nccl_group: tuple[str, int, int] | None = None

    async def open(self) -> None:
        """Name the initial weights version 0, then load the latest ones where ``weights_pointer`` names some."""
        digest = self._initial_digest = await asyncio.to_thread(digest_of_folder, self._settings.model)
        await self._running.client.update_weight_version("0")
        self._record(WeightVersion(version=0, digest=digest, transport=_INITIAL, loaded_at=time.time(), seconds=0.0))
        pointer = self._settings.weights_pointer
        if pointer is not None and pointer.exists():
            try:
                latest = Pointer.model_validate_json(pointer.read_bytes())
            except ValidationError as error:
                raise ValueError(f"weights_pointer {pointer} is not valid: {error}") from error
            source = WeightFile(path=str(pointer.parent / latest.path))
            await self.push(WeightPush(version=latest.version, digest=latest.digest, source=source))

    @property
    def current(self) -> WeightVersion:
        """The weights that are served now."""
        return self._history[-1]

    def state(self) -> WeightState:
        """Version, digests and history."""
        current = self.current
        return WeightState(
            version=current.version,
            digest=current.digest,
            model=self._settings.model_name(),
            initial_digest=self._initial_digest,
            history=list(self._history),
        )

    async def push(self, push: WeightPush) -> WeightState:
        """Serve these weights. Raises `ProblemError` where they are not fit to, and then the old ones stay.

        The same version and digest again changes nothing, so a push may be retried.
        """
        async with self._lock:
            current = self.current
            if (push.version, push.digest.lower()) == (current.version, current.digest):
                return self.state()
            if push.expected_version is not None and push.expected_version != current.version:
                detail = (
                    f"expected_version is {push.expected_version}, the server holds {current.version}; "
                    "GET /v1/weights and push again"
                )
                raise ProblemError(
                    409,
                    "version-conflict",
                    "The server holds another version",
                    detail,
                    extra={"version": current.version},
                )
            # A caller that hangs up must not leave the engine paused, so the work goes on without it.
            await asyncio.shield(asyncio.ensure_future(self._counted(push)))
            return self.state()

    async def _counted(self, push: WeightPush) -> None:
        with self._metrics.pushing(push.source.transport):
            await self._push(push)
        logger.info("weights version %d, by %s", push.version, push.source.transport)

    async def _push(self, push: WeightPush) -> None:
        source = push.source
        if isinstance(source, WeightNccl):
            await self._push_nccl(push, source)
            return
        transport = self._transport(source)
        async with transport.folder() as folder:
            files = await asyncio.to_thread(self._checked, folder, push.digest)
            await self._stage(files)
            await self._apply(push)

    def _transport(self, source: WeightFile | WeightStream) -> FileTransport | HttpTransport:
        if isinstance(source, WeightFile):
            return FileTransport(source)
        return HttpTransport(source, self._settings.spool, self._settings.pull_timeout, self._layout.bytes)

    def _checked(self, folder: Path, digest: str) -> list[list[str | int]]:
        """The folder's files as the engine wants them, once names, shapes and digest are right."""
        self._layout.check(read_shapes(folder))
        found = [(file, file.stat()) for file in sorted(folder.glob("*.safetensors"))]
        check_digest(folder, digest)
        return [[str(file.resolve()), status.st_size, status.st_mtime_ns] for file, status in found]

    async def _stage(self, files: list[list[str | int]]) -> None:
        """Have the engine read the files. Nothing has changed yet, so a failure harms nothing."""
        client = self._running.client
        await client.start_weight_update()
        try:
            await client.update_weights(_update_request({"files": files}))
        except Exception as error:  # vLLM hands every fault of its other process over as a bare Exception
            if client.errored:
                raise
            raise ProblemError(422, "weights-unreadable", "The weights can't be read", str(error)) from error

    async def _push_nccl(self, push: WeightPush, source: WeightNccl) -> None:
        """Receive a broadcast into the model. What arrives can't be checked first: only names and shapes are."""
        self._layout.check(dict(zip(source.names, map(tuple, source.shapes), strict=True)))
        client = self._running.client
        group = (source.master_address, source.master_port, source.world_size)
        if self._nccl_group != group:
            await client.init_weight_transfer_engine(
                _init_request({"master_address": group[0], "master_port": group[1], "world_size": group[2]})
            )
            self._nccl_group = group
        await client.start_weight_update()
        await self._apply(push, broadcast={"names": source.names, "dtypes": source.dtypes, "shapes": source.shapes})

    async def _apply(self, push: WeightPush, broadcast: dict[str, list[str] | list[list[int]]] | None = None) -> None:
        """Pause, put the staged weights into the model, resume. Requests in flight are kept and computed anew."""
        client = self._running.client
        started = time.monotonic()
        try:
            await client.pause_generation(mode="keep", clear_cache=True)
            if broadcast is not None:
                await client.update_weights(_update_request(broadcast))
            await client.finish_weight_update(weight_version=str(push.version))
            await client.resume_generation()
        except BaseException as error:
            self._fail(f"version {push.version} could not be put into the model: {error}")
            raise
        self._record(
            WeightVersion(
                version=push.version,
                digest=push.digest.lower(),
                transport=push.source.transport,
                loaded_at=time.time(),
                seconds=time.monotonic() - started,
            )
        )

    def _record(self, version: WeightVersion) -> None:
        self._history.append(version)
        self._metrics.serves(version.version, None if version.transport == _INITIAL else version.seconds)


def _update_request(info: dict[str, list[list[str | int]]] | dict[str, list[str] | list[list[int]]]) -> object:
    from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

    return WeightTransferUpdateRequest(update_info=info)


def _init_request(info: dict[str, str | int]) -> object:
    from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

    return WeightTransferInitRequest(init_info=info)
