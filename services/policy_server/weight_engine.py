"""The engine's side of a weight push: a transfer engine in vLLM's registry, loaded into every worker.

vLLM drives a push in three calls. Here ``update_weights`` only reads the files into memory, which may fail without
harm while requests go on; ``finish_weight_update``, for which the server pauses generation, puts them into the model.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from vllm.config import VllmConfig
from vllm.config.weight_transfer import WeightTransferConfig
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine, NCCLWeightTransferUpdateInfo
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from services.policy_server.launch import PARENT_PID, WEIGHT_BACKEND


@dataclass
class GroupInfo(WeightTransferInitInfo):  # type: ignore[misc]  # vLLM ships no types
    """Where to meet the trainer for a broadcast over NCCL."""

    master_address: str
    master_port: int
    world_size: int


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]
    """What one push consists of: files, or the tensors that a broadcast will bring."""

    files: list[list[str | int]] = field(default_factory=list)
    """Path, size in bytes and modification time in ns of each file, as they were when their digest was checked."""
    names: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    shapes: list[list[int]] = field(default_factory=list)


class GagpoWeightTransferEngine(WeightTransferEngine[GroupInfo, UpdateInfo]):  # type: ignore[misc]
    """Loads pushed weights. Files are staged and applied at the end; a broadcast goes to vLLM's own NCCL engine."""

    init_info_cls = GroupInfo
    update_info_cls = UpdateInfo

    def __init__(
        self, config: WeightTransferConfig, vllm_config: VllmConfig, device: torch.device, model: torch.nn.Module
    ) -> None:
        super().__init__(config, vllm_config, device, model)
        self._staged: dict[str, torch.Tensor] = {}
        self._nccl = NCCLWeightTransferEngine(config, vllm_config, device, model)
        self._broadcast_running = False

    def init_transfer_engine(self, init_info: GroupInfo) -> None:
        """Join the trainer's NCCL group; the trainer is rank 0, the workers follow."""
        self._nccl.init_transfer_engine(
            NCCLWeightTransferInitInfo(
                master_address=init_info.master_address,
                master_port=init_info.master_port,
                rank_offset=1,
                world_size=init_info.world_size,
                packed=True,
            )
        )

    def start_weight_update(self) -> None:
        """Forget what an unfinished push may have staged."""
        self._staged = {}
        self._broadcast_running = False

    def receive_weights(self, update_info: UpdateInfo) -> None:
        """Stage the files, or receive a broadcast straight into the model (the server has paused it)."""
        if update_info.names:
            self._broadcast_running = True
            self._nccl.start_weight_update()
            self._nccl.receive_weights(
                NCCLWeightTransferUpdateInfo(
                    names=update_info.names, dtype_names=update_info.dtypes, shapes=update_info.shapes
                )
            )
            return
        for name, size, modified in update_info.files:
            path = Path(str(name))
            found = path.stat()
            if (found.st_size, found.st_mtime_ns) != (size, modified):
                raise ValueError(f"{path} changed after its digest was checked: write new weights to a new folder")
            self._staged.update(load_file(path))

    def finish_weight_update(self) -> None:
        """Put the staged weights into the model."""
        if self._broadcast_running:
            self._nccl.finish_weight_update()
            self._broadcast_running = False
        else:
            initialize_layerwise_reload(self.model)
            self.model.load_weights(self._take_staged())
            finalize_layerwise_reload(self.model, self.model_config)
        repack_tied_head(self.model)

    def _take_staged(self) -> Iterator[tuple[str, torch.Tensor]]:
        staged, self._staged = self._staged, {}
        yield from staged.items()

    def shutdown(self) -> None:
        """Leave the NCCL group, if in one."""
        self._nccl.shutdown()


def repack_tied_head(model: torch.nn.Module) -> None:
    """Make an output layer that shares the embedding's weights follow them.

    On a CPU the output layer multiplies with a packed copy, which vLLM's reload does not rebuild when the layer has no
    weights of its own: log-probs were wrong by up to 1 nat until it was packed again.
    """
    config = getattr(model, "config", None)
    head = getattr(model, "lm_head", None)
    embedding = getattr(getattr(model, "model", None), "embed_tokens", None)
    if not getattr(config, "tie_word_embeddings", False) or head is None or embedding is None or head is embedding:
        return
    if isinstance(head.quant_method, UnquantizedEmbeddingMethod):
        head.weight = embedding.weight
        head.quant_method.process_weights_after_loading(head)


class WeightEngineExtension:
    """Mixed into vLLM's worker; its import is what registers the engine in the worker's process."""


def _end_with_server() -> None:
    """End this process when the server's process is gone, even if that was killed and could tell nobody."""
    parent = int(os.environ.get(PARENT_PID, "0"))
    if parent in (0, os.getpid()):
        return
    try:
        watched = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)

    def watch() -> None:
        select.select([watched], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-server", daemon=True).start()


def _register() -> None:
    registry: dict[str, Any] = WeightTransferEngineFactory._registry
    if WEIGHT_BACKEND not in registry:
        WeightTransferEngineFactory.register_engine(WEIGHT_BACKEND, GagpoWeightTransferEngine)


_register()
_end_with_server()
