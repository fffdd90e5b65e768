"""From a study to its runs: each an ordinary run with a recipe of its own, which `gagpo train` could train as well."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import tomli_w

from gagpo.comparing.errors import StudyError
from gagpo.comparing.run_record import read_record
from gagpo.comparing.study import Base, Budget, Study, Variant
from gagpo.training.run_folder import RunFolder
from shared.recipe import Recipe, RecipeError, load_document, load_recipe, parse_recipe, save_recipe


class RunState(StrEnum):
    """Where a planned run stands."""

    NEW = "new"
    CHANGED = "changed"
    """Its folder holds a run of another recipe: the study was changed."""
    UNFINISHED = "unfinished"
    FAILED = "failed"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """Where the parts of a study lie."""

    path: Path

    @property
    def runs(self) -> Path:
        """The run folders."""
        return self.path / "runs"

    @property
    def replaced(self) -> Path:
        """Run folders of earlier versions of the study."""
        return self.path / "replaced"

    @property
    def report(self) -> Path:
        """Tables, plots and numbers."""
        return self.path / "report"

    @property
    def evaluations(self) -> Path:
        """Evaluations of untrained policies, which runs share."""
        return self.path / "evaluations"

    def lane(self, number: int) -> Path:
        """Logs and Redis of the servers that one of the processes working on the study keeps."""
        return self.path / "lanes" / str(number)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One base, variant and seed."""

    base: str
    variant: str
    seed: int
    recipe: Recipe
    folder: RunFolder

    @property
    def name(self) -> str:
        """The run's name, which is its folder's."""
        return self.folder.job

    def state(self) -> RunState:
        """Where it stands, by what is in its folder."""
        if not self.folder.recipe.exists():
            return RunState.NEW
        if not self._same_recipe():
            return RunState.CHANGED
        if self.folder.complete:
            return RunState.COMPLETE
        return RunState.FAILED if read_record(self.folder).failure else RunState.UNFINISHED

    def _same_recipe(self) -> bool:
        try:
            return load_recipe(self.folder.recipe) == self.recipe
        except RecipeError:  # begun by a release that knew other keys
            return False


def plan_runs(study: Study, folder: StudyFolder) -> list[PlannedRun]:
    """Every run of a study, the first seed of all of them first: a study that is cut short is still balanced.

    Raises `StudyError` with every variant that has no valid recipe, before anything runs.
    """
    recipes, faults = {}, []
    for base in study.bases:
        for variant in study.variants_on(base):
            try:
                recipes[base.name, variant.name] = _recipe(study, base, variant)
            except RecipeError as error:
                faults.append(str(error))
    if faults:
        raise StudyError("\n".join(faults))
    return [
        PlannedRun(base, variant, seed, recipe.model_copy(update={"seed": seed}), _folder(folder, recipe, seed))
        for seed in study.seeds
        for (base, variant), recipe in recipes.items()
    ]


def claim(run: PlannedRun, folder: StudyFolder) -> None:
    """Make a run's folder ready; one that holds another recipe's run is moved to ``replaced/`` first.

    Raises `RunFolderError` when that one is being trained.
    """
    if run.state() is RunState.CHANGED:
        with run.folder.lock():
            folder.replaced.mkdir(parents=True, exist_ok=True)
            taken = (folder.replaced / f"{run.name}-{number}" for number in range(1, 10_000))
            run.folder.path.rename(next(place for place in taken if not place.exists()))
    if not run.folder.recipe.exists():
        run.folder.path.mkdir(parents=True, exist_ok=True)
        save_recipe(run.recipe, run.folder.recipe)


def chosen(runs: Sequence[PlannedRun], variants: Sequence[str]) -> list[PlannedRun]:
    """The runs of some variants; of all, where none is named. Raises `StudyError` for an unknown one."""
    known = dict.fromkeys(run.variant for run in runs)
    for name in variants:
        if name not in known:
            raise StudyError(f"--only {name}: the study has no such variant; it has {', '.join(known)}")
    return [run for run in runs if not variants or run.variant in variants]


def _folder(folder: StudyFolder, recipe: Recipe, seed: int) -> RunFolder:
    return RunFolder((folder.runs / f"{recipe.name}-s{seed}").resolve())


def _recipe(study: Study, base: Base, variant: Variant) -> Recipe:
    """The variant's recipe on the base, under the study's budget. Raises `RecipeError`."""
    document = load_document(base.recipe)
    if variant.algorithm is not None:
        document["algorithm"] = variant.algorithm
    document["name"] = f"{base.name}-{variant.name}"
    origin = f"variant {variant.name!r} on base {base.name!r} ({base.recipe})"
    overrides = [*study.set, *base.set, *variant.set, *variant.set_on.get(base.name, [])]
    recipe = parse_recipe(tomli_w.dumps(document), origin, base.recipe.parent, overrides)
    return recipe.model_copy(
        update={"training": recipe.training.model_copy(update=_limits(study.budget_of(base), recipe))}
    )


def _limits(budget: Budget, recipe: Recipe) -> dict[str, int | float | None]:
    """The budget as settings of ``[training]``: it replaces every limit that the recipe has."""
    steps = budget.training_steps
    if steps is None and budget.environment_steps is not None:
        # An episode has a step at least, so no run gets so far.
        steps = math.ceil(budget.environment_steps / (recipe.rollout.groups_per_step * recipe.rollout.group_size))
    return {
        "steps": steps or recipe.training.steps,
        "environment_steps": budget.environment_steps,
        "budget_s": budget.seconds,
    }
