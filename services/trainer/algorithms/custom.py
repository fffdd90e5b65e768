"""Estimators of one's own: found by entry point, given their options, and what they return looked at.

An estimator is a class of another package, registered in the entry-point group ``gagpo.algorithms``, or for a try in
the variable ``GAGPO_ALGORITHMS``, a JSON object of names and ``module:Class``. docs/algorithms.md shows a whole one.
"""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from services.trainer.algorithms.base import CreditGroup, GroupCredit, LossKind
from shared.recipe import CustomSettings, RecipeFault

ENTRY_POINT_GROUP = "gagpo.algorithms"
VARIABLE = "GAGPO_ALGORITHMS"

_ARRAYS = ("returns", "values", "deltas", "raw", "advantages", "states", "visits", "has_sibling", "true_states")


class Estimator(Protocol):
    """What assigns the credit. Its class has a pydantic model ``Options``, and is made by ``(options, min_std)``."""

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order, as `services.trainer.algorithms.Algorithm` does."""
        ...


class EstimatorClass(Protocol):
    """The class of an `Estimator`."""

    Options: type[BaseModel]
    """What may stand in ``algorithm.options``; an unknown key is an error, whatever the model makes of it."""

    def __call__(self, options: BaseModel, min_std: float, /) -> Estimator:
        """``min_std`` is the floor of a normalising divisor, in units of the shaped reward."""
        ...


class EstimatorError(Exception):
    """An estimator that is not there, options that it does not take, or credit that is none."""

    def __init__(self, faults: Sequence[RecipeFault]) -> None:
        """One line a fault."""
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class Custom:
    """An estimator of one's own as an algorithm: its credit, with the loss that the recipe's table describes."""

    def __init__(self, settings: CustomSettings, min_std: float) -> None:
        """Import it and check its options. Raises `EstimatorError`."""
        self.settings = settings
        self.estimator = estimator_of(settings, min_std)

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        return LossKind.of(self.settings)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """The estimator's credit. Raises `EstimatorError` where it does not fit the groups, or has a NaN."""
        found = self.estimator.credit(batch)
        if message := _misfit(batch, found):
            raise EstimatorError([RecipeFault("algorithm.estimator", repr(self.settings.estimator), message)])
        return found


def estimator_of(settings: CustomSettings, min_std: float) -> Estimator:
    """The estimator that a recipe names, with its options. Raises `EstimatorError` with every fault."""
    made = _load(settings.estimator)
    fields, takes_all = made.Options.model_fields, made.Options.model_config.get("extra") == "allow"
    unknown = [] if takes_all else [key for key in settings.options if key not in fields]
    message = f"unknown key ({settings.estimator} knows: {', '.join(fields) or 'none'})"
    faults = [RecipeFault(f"algorithm.options.{key}", None, message) for key in unknown]
    try:
        options = made.Options.model_validate({k: v for k, v in settings.options.items() if k not in unknown})
    except ValidationError as error:
        faults += map(_fault, error.errors())
    if faults:
        raise EstimatorError(faults)
    return made(options, min_std)


def registered(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The estimators there are, name → ``module:Class``; those of `VARIABLE` win. Raises `EstimatorError`."""
    try:
        extra = TypeAdapter(dict[str, str]).validate_json(variables.get(VARIABLE) or "{}")
    except ValidationError as error:
        raise EstimatorError(
            [RecipeFault(VARIABLE, repr(variables[VARIABLE]), "should be a JSON object of names and module:Class")]
        ) from error
    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)} | extra


def _load(name: str) -> EstimatorClass:
    known = registered()
    if name not in known:
        raise _not_there(
            name,
            f"no such estimator is installed where the trainer runs (there is: {', '.join(sorted(known)) or 'none'}); "
            f"register it by an entry point in the group {ENTRY_POINT_GROUP!r} or in {VARIABLE}",
        )
    module, _, attribute = known[name].partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise _not_there(name, f"cannot load {known[name]!r}: {error}") from error
    options = getattr(found, "Options", None)
    if not isinstance(options, type) or not issubclass(options, BaseModel) or not hasattr(found, "credit"):
        raise _not_there(name, f"{known[name]!r} needs a method credit, and a pydantic model Options for its settings")
    made: EstimatorClass = found
    return made


def _not_there(name: str, message: str) -> EstimatorError:
    return EstimatorError([RecipeFault("algorithm.estimator", repr(name), message)])


def _fault(found: ErrorDetails) -> RecipeFault:
    field = ".".join(("algorithm", "options", *map(str, found["loc"])))
    if found["type"] == "missing":
        return RecipeFault(field, None, "required, and not given")
    return RecipeFault(field, repr(found["input"]), found["msg"].removeprefix("Value error, "))


def _misfit(batch: Sequence[CreditGroup], found: Sequence[GroupCredit]) -> str | None:
    """What is wrong with credit for a training step's groups; None where it fits."""
    if len(found) != len(batch):
        return f"gave credit for {len(found)} groups of {len(batch)}"
    for place, (group, credit) in enumerate(zip(batch, found, strict=True)):
        lengths = tuple(len(episode.rewards) for episode in group.episodes)
        if credit.lengths != lengths:
            return f"group {place}: episodes of {credit.lengths} steps, where they have {lengths}"
        for name in _ARRAYS:
            shape = np.shape(getattr(credit, name))
            if shape != (sum(lengths),):
                return (
                    f"group {place}: {name} has the shape {shape}, and should have one entry a step, ({sum(lengths)},)"
                )
        if not np.isfinite(credit.advantages).all():
            return f"group {place}: an advantage is infinite or not a number"
    return None
