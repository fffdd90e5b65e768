"""The optimizer's moments on disk, each process writing its own shards; read back by any number of processes.

`torch.distributed.checkpoint` splits and joins the tensors; the files are safetensors, so nothing in them is pickled.
"""

import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from transformers import PreTrainedModel

_MOMENTS = ("exp_avg", "exp_avg_sq")
_STEP = "step"
_RNG = "rng"

# Without a process group there is one process: as it should be.
warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)


def save_optimizer(folder: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> None:
    """Write moments and torch's random state into ``folder``. Every process calls it."""
    tensors: dict[str, Tensor] = {_RNG: torch.get_rng_state()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    writer = HuggingFaceStorageWriter(path=str(folder), save_distributed=True)
    save(tensors, storage_writer=writer, no_dist=not dist.is_initialized())


def restore_optimizer(folder: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> None:
    """Put back what `save_optimizer` wrote, however many processes it was. ``model`` has the same weights as then."""
    reader = HuggingFaceStorageReader(path=str(folder))
    there = reader.read_metadata().state_dict_metadata
    tensors: dict[str, Tensor] = {_RNG: torch.get_rng_state()}
    states: dict[Tensor, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        if f"{_STEP}/{name}" in there:  # before its first gradient a weight has no moments
            state = {key: torch.zeros_like(parameter, requires_grad=False) for key in _MOMENTS}
            state[_STEP] = torch.zeros((), device=parameter.device)
            states[parameter] = state
            tensors |= {f"{key}/{name}": value for key, value in state.items()}
    load(tensors, storage_reader=reader, no_dist=not dist.is_initialized())
    torch.set_rng_state(tensors[_RNG])
    optimizer.state.update(states)
