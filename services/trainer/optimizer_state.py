"""Optimizer moments on disk, and weights that no model folder has; each process writes its own shards.

Any number of processes reads them back: `torch.distributed.checkpoint` splits and joins the tensors. The files are
safetensors, so nothing in them is pickled.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

_MOMENTS = ("exp_avg", "exp_avg_sq")
_STEP = "step"
_RNG = "rng"

# Without a process group there is one process: as it should be.
warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)


def save_optimizer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write moments and torch's random state into ``folder``. Every process calls it."""
    _save(folder, {_RNG: torch.get_rng_state(), **_moments(model, optimizer)})


def restore_optimizer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put back what `save_optimizer` wrote, however many processes it was. ``model`` has the same weights as then."""
    tensors: dict[str, Tensor] = {_RNG: torch.get_rng_state()}
    _restore(folder, tensors, model, optimizer)
    torch.set_rng_state(tensors[_RNG])


def save_trained(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write the weights that are trained, with their moments, into ``folder``. Every process calls it."""
    _save(folder, {**_weights(model), **_moments(model, optimizer)})


def restore_trained(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put back what `save_trained` wrote, however many processes it was."""
    _restore(folder, _weights(model), model, optimizer)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {f"weight/{name}": p.detach() for name, p in model.named_parameters() if p.requires_grad}


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}/{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _save(folder: Path, tensors: dict[str, Tensor]) -> None:
    writer = HuggingFaceStorageWriter(path=str(folder), save_distributed=True)
    with _own_errors():
        save(tensors, storage_writer=writer, no_dist=not dist.is_initialized())


def _restore(folder: Path, tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Read ``tensors``, in place, and the optimizer's moments."""
    reader = HuggingFaceStorageReader(path=str(folder))
    there = reader.read_metadata().state_dict_metadata
    states: dict[Tensor, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        if f"{_STEP}/{name}" in there:  # before its first gradient a weight has no moments
            state = {key: torch.zeros_like(parameter, requires_grad=False) for key in _MOMENTS}
            state[_STEP] = torch.zeros((), device=parameter.device)
            states[parameter] = state
            tensors |= {f"{key}/{name}": value for key, value in state.items()}
    with _own_errors():
        load(tensors, storage_reader=reader, no_dist=not dist.is_initialized())
    optimizer.state.update(states)


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise what a process really met: torch wraps it into a `BaseException`, which passes by who handles errors."""
    try:
        yield
    except CheckpointException as wrapped:
        raise next(error for error, _ in wrapped.failures.values()) from None
