"""Getting new weights to the policy servers: export, digest, push, and a pointer for restarts."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from transformers import PreTrainedModel

from services.trainer.lora import save_model
from services.trainer.policy_replicas import PolicyReplicas, WeightPushError
from services.trainer.weight_server import WeightServer
from shared.files import write_atomically
from shared.recipe import WeightSettings, WeightTransport
from shared.schemas.policy import WeightFile, WeightPush, WeightSource, WeightStream
from shared.weights_digest import digest_of_folder

KEPT_FOLDERS = 3
"""Newest weight folders to keep: a server that starts late may still be reading an older one."""


class WeightPublisher:
    """Publishes versions of the weights to all policy servers of a job; `PolicyReplicas` gets them there."""

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        settings: WeightSettings,
        host: str = "127.0.0.1",
        check: Callable[[], None] = lambda: None,
        announce: Callable[[int, str], None] = lambda version, digest: None,
    ) -> None:
        """``host`` is where the ``http`` transport is served; ``check`` is called between attempts and may raise.

        ``announce`` is told the version and the digest before any server is given the weights.
        """
        if settings.transport is WeightTransport.NCCL:
            raise WeightPushError(
                "weights.transport = 'nccl' needs GPUs and is not served by this trainer; take 'http'"
            )
        self._folder = folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._announce = announce
        self._replicas = PolicyReplicas(urls, settings.push_timeout_s, check)
        self._server = WeightServer(self._folder, host) if settings.transport is WeightTransport.HTTP else None

    def __enter__(self) -> Self:
        """Return the publisher itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close connections and the weight server."""
        self._replicas.close()
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
        self._announce(version, digest)
        self._replicas.push(WeightPush(version=version, digest=digest, source=self._source(name)))
        self._remove_old()
        return digest

    def _export(self, model: PreTrainedModel, name: str) -> Path:
        target, part = self._folder / name, self._folder / f".{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        save_model(model, part, max_shard_size="1000GB")
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

    def _remove_old(self) -> None:
        for old in sorted(self._folder.glob("v*"), key=lambda path: path.stat().st_mtime)[:-KEPT_FOLDERS]:
            shutil.rmtree(old)
