"""Models sharded over processes by FSDP2: a shard of every weight on each, a layer whole only while it computes."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from services.trainer.batching import MicroBatch
from services.trainer.distributed import World
from services.trainer.lora import adapters_off
from services.trainer.model import action_logprobs


class ActionModel(nn.Module):
    """A language model as a function from micro batches to log-probabilities.

    FSDP gathers weights at a module's call. The head is called apart from the layers below it, so the call that FSDP
    sees has to be around both.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        """Holds ``model`` itself, no copy."""
        super().__init__()
        self.model = model

    def forward(self, batch: MicroBatch, width: int, temperature: float) -> Tensor:
        """See `action_logprobs`."""
        return action_logprobs(self.model, batch, width, temperature)


class WithoutAdapters(ActionModel):
    """A policy as it was before it had adapters: a reference that takes no memory of its own."""

    def __init__(self, policy: ActionModel) -> None:
        """``policy`` may be sharded; it is the policy's own function that computes."""
        super().__init__(policy.model)
        self._policy = policy

    def forward(self, batch: MicroBatch, width: int, temperature: float) -> Tensor:
        """See `action_logprobs`."""
        with adapters_off(self.model):
            logprobs: Tensor = self._policy(batch, width, temperature)
        return logprobs


def shard(model: PreTrainedModel, world: World, computing: torch.dtype) -> ActionModel:
    """The model as a function, sharded in place where the world has a mesh, and computing in ``computing`` then.

    Where that is not the weights' own precision, gradients are still summed in float32.
    """
    whole = ActionModel(model)
    shard_layers(whole, model, world, computing)
    return whole


def shard_layers(whole: nn.Module, model: PreTrainedModel, world: World, computing: torch.dtype) -> None:
    """Shard ``whole``, which calls ``model``, in place, each of the model's layers by itself."""
    if world.mesh is None:
        return
    precision = MixedPrecisionPolicy(param_dtype=computing, reduce_dtype=torch.float32)
    blocks = set(model._no_split_modules or ())
    for module in [module for module in model.modules() if type(module).__name__ in blocks]:
        fully_shard(module, mesh=world.mesh, mp_policy=precision)
    fully_shard(whole, mesh=world.mesh, mp_policy=precision)


def shard_reference(
    reference: PreTrainedModel, policy: ActionModel, world: World, computing: torch.dtype
) -> ActionModel:
    """The reference of the KL term as a function: of the policy itself, what is under its adapters."""
    return WithoutAdapters(policy) if reference is policy.model else shard(reference, world, computing)


class WholeCopy:
    """Where a sharded model's weights are put together again, in rank 0's memory: to be pushed and to be saved."""

    def __init__(self, model: PreTrainedModel, world: World) -> None:
        """Call before ``model`` is sharded. Takes memory only on rank 0, and only where models are sharded."""
        self._model = model
        self._sharded = world.mesh is not None
        self._copy = deepcopy(model).cpu() if self._sharded and world.rank == 0 else None

    def gather(self) -> PreTrainedModel:
        """The model with all its weights, on rank 0; every process has to call it. A whole one comes as it is."""
        if not self._sharded:
            return self._model
        copies = {} if self._copy is None else dict(self._copy.named_parameters())
        for name, parameter in self._model.named_parameters():
            if not parameter.requires_grad:
                continue
            assert isinstance(parameter, DTensor), f"{name} is gathered for a backward pass that never came"
            weights = parameter.full_tensor().detach()
            if name in copies:
                copies[name].data.copy_(weights)
        return self._copy or self._model
