"""Getting new weights into every policy server: export, digest, push with retries, and a pointer for restarts."""

import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from pydantic import ValidationError
from transformers import PreTrainedModel

from services.trainer.weight_server import WeightServer
from shared.files import write_atomically
from shared.recipe import WeightSettings, WeightTransport
from shared.schemas.policy import WeightFile, WeightPush, WeightSource, WeightState, WeightStream
from shared.service import Scope, authorization
from shared.weights_digest import digest_of_folder

log = logging.getLogger(__name__)

KEPT_FOLDERS = 3
"""Newest weight folders to keep: a server that starts late may still be reading an older one."""

_ATTEMPTS_BEFORE_REFUSAL_COUNTS = 3
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0


class WeightPushError(RuntimeError):
    """A policy server did not take the weights."""


class WeightPublisher:
    """Publishes versions of the weights to all policy servers of a job."""

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        settings: WeightSettings,
        host: str = "127.0.0.1",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """``host`` is where the ``http`` transport is served; ``check`` is called between attempts and may raise."""
        if settings.transport is WeightTransport.NCCL:
            raise WeightPushError(
                "weights.transport = 'nccl' needs GPUs and is not served by this trainer; take 'http'"
            )
        self._folder = folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._urls = [url.rstrip("/") for url in urls]
        self._settings = settings
        self._check = check
        self._client = httpx.Client(
            headers=authorization(Scope.WEIGHTS), timeout=httpx.Timeout(settings.push_timeout_s, connect=10.0)
        )
        self._server = WeightServer(self._folder, host) if settings.transport is WeightTransport.HTTP else None

    def __enter__(self) -> Self:
        """Return the publisher itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close connections and the weight server."""
        self._client.close()
        if self._server is not None:
            self._server.close()

    def publish(self, model: PreTrainedModel, version: int) -> str:
        """Export the weights and push them to every server. Returns their digest; raises `WeightPushError`.

        The pointer ``latest.json`` moves before the push: a server that restarts while the push is under way loads
        what it would have been given.
        """
        name = f"v{version:06d}"
        exported = self._export(model, name)
        digest = digest_of_folder(exported)
        self._point_to(version, digest, name)
        push = WeightPush(version=version, digest=digest, source=self._source(name))
        with ThreadPoolExecutor(max_workers=max(len(self._urls), 1)) as pool:
            for done in [pool.submit(self._push, url, push) for url in self._urls]:
                done.result()
        self._remove_old()
        return digest

    def _export(self, model: PreTrainedModel, name: str) -> Path:
        target, part = self._folder / name, self._folder / f".{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        model.save_pretrained(part, safe_serialization=True, max_shard_size="1000GB")
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        return target

    def _point_to(self, version: int, digest: str, name: str) -> None:
        pointer = {"version": version, "digest": digest, "path": name}
        write_atomically(self._folder / "latest.json", json.dumps(pointer).encode())

    def _source(self, name: str) -> WeightSource:
        if self._server is not None:
            return WeightStream(url=self._server.url(name))
        return WeightFile(path=str(self._folder / name))

    def _push(self, url: str, push: WeightPush) -> None:
        """Push to one server until it has the version, for at most two of the recipe's timeouts."""
        give_up = time.monotonic() + 2 * self._settings.push_timeout_s
        wait, refusals = _FIRST_WAIT_S, 0
        while True:
            self._check()
            problem, refused = self._try_once(url, push)
            if problem is None:
                return
            refusals += refused
            if refusals >= _ATTEMPTS_BEFORE_REFUSAL_COUNTS or time.monotonic() + wait > give_up:
                raise WeightPushError(f"{url} did not take version {push.version} of the weights: {problem}")
            log.warning("weight push to %s failed, trying again in %.1f s: %s", url, wait, problem)
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _try_once(self, url: str, push: WeightPush) -> tuple[str | None, bool]:
        """One attempt. Returns what went wrong, None for nothing, and whether the server refused rather than failed."""
        try:
            answer = self._client.post(f"{url}/v1/weights", json=push.model_dump(mode="json"))
        except httpx.TransportError as error:
            return f"{type(error).__name__}: {error}", False
        if answer.is_success:
            try:
                held = WeightState.model_validate_json(answer.content)
            except ValidationError as error:
                return f"its answer is not a weight state: {error}", True
            if (held.version, held.digest) == (push.version, push.digest):
                return None, False
            return f"it holds version {held.version} with digest {held.digest}, not {push.digest}", True
        return f"status {answer.status_code}: {answer.text[:500]}", 400 <= answer.status_code < 500

    def _remove_old(self) -> None:
        for old in sorted(self._folder.glob("v*"), key=lambda path: path.stat().st_mtime)[:-KEPT_FOLDERS]:
            shutil.rmtree(old)
