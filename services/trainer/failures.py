"""Failures that people meet and can mend: said in words, without the trace that an unexpected one deserves."""

import errno
import shutil
from pathlib import Path

import torch

from services.trainer.algorithms.custom import EstimatorError
from services.trainer.lora import AdapterError
from services.trainer.model import ModelError
from services.trainer.outputs import FolderInUseError
from services.trainer.policy_replicas import WeightPushError
from services.trainer.trackers import TrackerError
from services.trainer.trust_region import TrustRegionError
from services.trainer.worker import FrontierError
from shared.buffer import EvictionPolicyError
from shared.recipe import RecipeError

_SAY_IT_THEMSELVES = (
    AdapterError,
    EstimatorError,
    EvictionPolicyError,
    FolderInUseError,
    FrontierError,
    ModelError,
    RecipeError,
    TrackerError,
    TrustRegionError,
    WeightPushError,
)
"""Their messages name the remedy."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_IN_WORDS = ("No space left on device", "Disk quota exceeded")
"""How libraries that are not Python's say it: safetensors and torch raise errors of their own."""

_MEMORY_IN_WORDS = ("can't allocate memory", "out of memory", "Cannot allocate memory")


def explained(error: BaseException, folder: Path) -> str | None:
    """What happened and what to do, of a job in the run's ``folder``; None where only the trace helps."""
    if isinstance(error, _SAY_IT_THEMSELVES):
        return str(error)
    if _is_full(error):
        free = shutil.disk_usage(folder).free / 2**20
        return (
            f"out of disk: {folder} has {free:,.0f} MiB left ({error}). The last whole checkpoint and everything that "
            "was trained up to it are safe. Free some space, or lower training.keep_checkpoints; then start the same "
            "command again, or resume the job"
        )
    if _is_memory(error):
        return (
            f"out of memory: {_first_line(error)}. Lower training.micro_batch_tokens, set model.gradient_checkpointing "
            "= true, set model.lora_rank to train adapters alone, take a smaller model, or use more processes; "
            "gagpo plan RECIPE says how much a recipe takes"
        )
    return None


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    return any(words in str(error) for words in _FULL_IN_WORDS)


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in _MEMORY_IN_WORDS)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
