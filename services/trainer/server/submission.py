"""From what a client submits to a recipe that the running servers can train, or a problem that says why not."""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pydantic import JsonValue, ValidationError

from services.trainer.algorithms.custom import EstimatorError, estimator_of
from services.trainer.server.model_check import ModelChecker
from services.trainer.server.servers import Servers
from services.trainer.server.task_check import environment_faults
from shared.problems import ProblemError
from shared.prompting.template import TemplateError, load_template
from shared.recipe import CustomSettings, Recipe, RecipeFault, WeightTransport, recipe_faults
from shared.tracking_checks import tracking_faults, unreachable_trackers

LONGEST_NAME_IN_ID = 80


def read_recipe(document: dict[str, JsonValue]) -> Recipe:
    """The recipe in a submission. Raises a 422 problem that names every fault."""
    try:
        recipe = Recipe.model_validate(document)
    except ValidationError as error:
        raise invalid_recipe(recipe_faults(error)) from error
    if faults := list(_faults_here(recipe)):
        raise invalid_recipe(faults)
    return recipe


async def fit(recipe: Recipe, servers: Servers, models: ModelChecker) -> Recipe:
    """The recipe with the model's path as the servers have it.

    Raises a 503 problem when a server does not answer, and a 409 problem that names everything the running servers
    cannot do.
    """
    environments = await servers.environments()
    checked = await asyncio.to_thread(models.check, recipe, await servers.models())
    unreachable = await asyncio.to_thread(lambda: list(unreachable_trackers(recipe.tracking)))
    faults = [*environment_faults(recipe, environments), *checked.faults, *unreachable]
    if faults:
        raise ProblemError(
            409,
            "not-servable",
            "The running servers cannot train this recipe",
            "; ".join(map(str, faults)),
            extra={"faults": _listed(faults)},
        )
    model = recipe.model.model_copy(update={"path": checked.path})
    return recipe.model_copy(update={"model": model})


def invalid_recipe(faults: Sequence[RecipeFault]) -> ProblemError:
    """The problem of a recipe that is wrong whatever the servers can do."""
    return ProblemError(
        422,
        "invalid-recipe",
        "The recipe is not valid",
        "; ".join(map(str, faults)),
        extra={"faults": _listed(faults)},
    )


def new_id(recipe: Recipe) -> str:
    """An id for a job that brings none: the recipe's name, the time, and four characters of chance."""
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return f"{recipe.name[:LONGEST_NAME_IN_ID]}-{now}-{secrets.token_hex(2)}"


def notes(recipe: Recipe) -> Iterable[str]:
    """What a submitter may not expect."""
    for place, environment in enumerate(recipe.environments):
        if environment.generate is not None:
            yield (
                f"environments.{place}.generate is for local runs and is ignored here: "
                f"the tasks of {environment.name!r} are the env server's own"
            )


def _faults_here(recipe: Recipe) -> Iterable[RecipeFault]:
    """What this trainer cannot do, whichever servers run."""
    if recipe.weights.transport is WeightTransport.NCCL:
        yield RecipeFault("weights.transport", "'nccl'", "not served by this trainer; take 'file' or 'http'")
    yield from tracking_faults(recipe.tracking)
    if (uri := recipe.tracking.mlflow_uri or "").startswith("file:"):
        yield RecipeFault(
            "tracking.mlflow_uri", repr(uri), "a folder of the trainer's machine is not a client's to name"
        )
    if isinstance(recipe.algorithm, CustomSettings):
        try:
            estimator_of(recipe.algorithm, recipe.min_std)
        except EstimatorError as error:
            yield from error.faults
    fields = {"prompt.template": recipe.prompt.template}
    fields |= {f"environments.{i}.prompt.template": one.prompt.template for i, one in enumerate(recipe.environments)}
    seen: set[str] = set()
    for field, template in fields.items():
        if template in seen:
            continue
        seen.add(template)
        try:
            load_template(template)
        except TemplateError as error:
            message = str(error).removeprefix(f"prompt.template = {template!r}: ")
            yield RecipeFault(field, repr(template), f"{message} on the servers")


def _listed(faults: Iterable[RecipeFault]) -> list[JsonValue]:
    return [{"field": fault.field, "value": fault.value, "message": _message(fault)} for fault in faults]


def _message(fault: RecipeFault) -> str:
    return fault.message if fault.value is None else f"{fault.message} (given: {fault.value})"
