"""LoRA (arXiv 2106.09685): small trained matrices A and B beside frozen weights W, which act as W + (α / rank) · B A.

`peft` puts them into the policy in place: it stays the same network, of the same class, with more weights. What leaves
the trainer is merged: W + (α / rank) · B A under W's own name, so that whoever reads it needs to know nothing of this.

peft takes seconds to import, so it is imported where adapters are first asked for.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from shared.files import write_atomically
from shared.recipe import ModelSettings
from shared.weights_digest import digest_of_folder

ADAPTER_FOLDER = "adapter"
"""In a checkpoint: the adapters as `peft` itself writes them."""

_NAME = "default"
_WEIGHTS = "adapter_model.safetensors"
_PEFT_PREFIX = "base_model.model."
"""Before every name in peft's files: there the model is inside two of peft's own."""
_ADAPTER_PART = ".lora_"
_BASE = "base.json"


class AdapterError(ValueError):
    """Adapters that can't be trained on, or not with this recipe; the message names the remedy."""


def add_adapters(model: PreTrainedModel, settings: ModelSettings) -> None:
    """Freeze ``model``'s weights and put fresh adapters of float32 beside them, in place. At first they change nothing:
    A is drawn from torch's generator, B is 0. Raises `AdapterError`.
    """
    from peft import LoraConfig, inject_adapter_in_model

    targets = settings.lora_targets
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.adapter_alpha,
        target_modules=targets if isinstance(targets, str) else list(targets),
        base_model_name_or_path=str(settings.path),
    )
    try:
        inject_adapter_in_model(config, model, _NAME)
    except ValueError as error:  # no layer of such a name, or one that is not linear
        raise AdapterError(
            f"model.lora_targets = {targets!r} does not fit the model in {settings.path}: {error}"
        ) from error
    for parameter in trained_weights(model):
        parameter.data = parameter.data.float()
    _refuse_tied(model, settings)


def has_adapters(model: PreTrainedModel) -> bool:
    """Whether `add_adapters` was called on this model, or on the one that it is a copy of."""
    return hasattr(model, "peft_config")


def trained_weights(model: nn.Module) -> list[nn.Parameter]:
    """The weights that training changes."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@contextmanager
def adapters_off(model: PreTrainedModel) -> Iterator[None]:
    """Meanwhile ``model`` computes as it did before it had adapters."""
    layers, trained = _layers(model).values(), trained_weights(model)
    for layer in layers:
        layer.enable_adapters(False)
    # peft freezes what it switches off. FSDP settles what it has to sum gradients of at the first pass, maybe this one.
    for parameter in trained:
        parameter.requires_grad_()
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


@torch.no_grad()
def merged_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """All weights under the names that they have without adapters, W + (α / rank) · B A in the place of W.

    Each sum is made in float32 and rounded to W's precision once. What no adapter changes is not copied, and nothing of
    ``model`` is touched: taking B A off again would not give W back to the last bit.
    """
    layers = _layers(model)
    weights = {}
    for name, tensor in model.state_dict().items():
        owner, adapted, rest = name.partition(".base_layer.")
        if adapted:
            weights[f"{owner}.{rest}"] = _merged(tensor, layers[owner]) if rest == "weight" else tensor
        elif _ADAPTER_PART not in name:
            weights[name] = tensor
    return weights


def save_model(model: PreTrainedModel, folder: Path, max_shard_size: str = "50GB") -> None:
    """Write ``model`` as a Hugging Face folder, adapters merged: a model like the one that training began with."""
    weights = merged_weights(model) if has_adapters(model) else None
    model.save_pretrained(folder, state_dict=weights, max_shard_size=max_shard_size)


def save_adapters(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapters into a new ``folder``, which `peft.PeftModel.from_pretrained` reads."""
    from peft import get_peft_model_state_dict

    folder.mkdir()
    model.peft_config[_NAME].save_pretrained(folder)
    tensors = get_peft_model_state_dict(model, adapter_name=_NAME, save_embedding_layers=False)
    named = {_PEFT_PREFIX + name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(named, folder / _WEIGHTS, metadata={"format": "pt"})


def restore_adapters(model: PreTrainedModel, folder: Path) -> None:
    """Give the adapters of ``model`` the weights that `save_adapters` wrote. Raises `AdapterError` for others."""
    from peft import LoraConfig, set_peft_model_state_dict

    before, now = LoraConfig.from_pretrained(folder), model.peft_config[_NAME]
    for field, key in (("lora_rank", "r"), ("lora_alpha", "lora_alpha"), ("lora_targets", "target_modules")):
        then, asked = getattr(before, key), getattr(now, key)
        if then != asked:
            raise AdapterError(
                f"model.{field} makes adapters with {key} = {_shown(asked)}, and {folder} has {_shown(then)}: "
                "set it back, or start a new job"
            )
    tensors = load_file(folder / _WEIGHTS)
    found = set_peft_model_state_dict(model, {name.removeprefix(_PEFT_PREFIX): t for name, t in tensors.items()}, _NAME)
    if found.unexpected_keys:
        raise AdapterError(f"{folder / _WEIGHTS} is not of this model: it has {found.unexpected_keys[0]}")


@dataclass(frozen=True, slots=True)
class FrozenBase:
    """The model that a job's adapters were made for. They mean nothing beside other weights."""

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read all weights in ``path`` once."""
        return cls(path, digest_of_folder(path))

    def save(self, folder: Path) -> None:
        """Note the model in ``folder``."""
        write_atomically(folder / _BASE, json.dumps({"path": str(self.path), "digest": self.digest}).encode())

    def check(self, folder: Path) -> None:
        """Raise `AdapterError` unless ``folder`` notes the same weights, wherever they lay."""
        if not (folder / _BASE).exists():
            raise AdapterError(
                f"model.lora_rank is set, and the job whose checkpoint is {folder.parent} began without "
                "adapters: set lora_rank = 0 to go on with it, or start a new job"
            )
        noted = json.loads((folder / _BASE).read_text())
        if noted["digest"] != self.digest:
            raise AdapterError(
                f"model.path = {self.path} holds other weights than when this job began (digest {self.digest[:12]}…, "
                f"not {noted['digest'][:12]}…): its adapters belong to the model that was in {noted['path']}. "
                "Bring that one back, or start a new job"
            )


def _layers(model: nn.Module) -> dict[str, Any]:
    """The layers that have an adapter, by name: `peft.tuners.lora.LoraLayer`, which has no types."""
    from peft.tuners.lora import LoraLayer

    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def _merged(weight: Tensor, layer: Any) -> Tensor:
    difference = layer.get_delta_weight(_NAME)
    # Adding the zeros of a fresh adapter would turn -0.0 into 0.0, and the first weights pushed are to be the base's.
    return (weight + difference).to(weight.dtype) if difference.any() else weight


def _refuse_tied(model: PreTrainedModel, settings: ModelSettings) -> None:
    """Under one name for two layers no weights could be pushed that are merged in one of them alone."""
    names: dict[Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for shared in names.values():
        if len(shared) > 1 and any(".base_layer." in name for name in shared):
            layers = " and ".join(name.replace(".base_layer", "").removesuffix(".weight") for name in shared)
            raise AdapterError(
                f"model.lora_targets = {settings.lora_targets}: {layers} share their weights in {settings.path}, and "
                "an adapter would change only one of them; leave it out"
            )


def _shown(value: Any) -> str:
    return str(sorted(value) if isinstance(value, set) else value)
