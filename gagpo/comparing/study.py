"""A study file: which algorithms are compared, on what, with which seeds and under which budget."""

import tomllib
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from gagpo.comparing.errors import StudyError
from shared.recipe import recipe_faults
from shared.recipe.section import Section

NAME = r"^[a-z0-9][a-z0-9._-]*$"


class Family(StrEnum):
    """Which table of the report a variant stands in."""

    METHOD = "method"
    ABLATION = "ablation"


class Budget(Section):
    """What every run gets. A run ends with the training step that uses any of them up."""

    environment_steps: int | None = Field(default=None, ge=1)
    """Environment steps trained on: equal for methods whose episodes differ in length."""

    training_steps: int | None = Field(default=None, ge=1)
    """Training steps."""

    seconds: float | None = Field(default=None, gt=0.0)
    """Seconds of training."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if (self.environment_steps, self.training_steps, self.seconds) == (None, None, None):
            raise ValueError("give environment_steps (what a fair comparison takes), training_steps or seconds")
        return self


class Base(Section):
    """A recipe that all variants start from: one for each environment."""

    name: str = Field(pattern=NAME)
    """Short name; names of runs begin with it."""

    recipe: Path
    """Relative to the study's folder."""

    set: list[str] = Field(default_factory=list)
    """Overrides of this recipe, as ``gagpo train --set`` takes them."""

    budget: Budget | None = None
    """In the place of the study's."""

    threshold: float | None = Field(default=None, gt=0.0, le=1.0)
    """In the place of the study's."""


class Variant(Section):
    """One algorithm with its settings."""

    name: str = Field(pattern=NAME)
    """Short name, in the names of its runs."""

    label: str
    """What tables and plots call it."""

    family: Family = Family.METHOD
    """Methods and ablations have tables and plots of their own."""

    algorithm: dict[str, Any] | None = None
    """Replaces the base's ``[algorithm]`` table as a whole. Unset, the base's own is trained."""

    set: list[str] = Field(default_factory=list)
    """Further overrides, such as a learning rate of its own."""

    set_on: dict[str, list[str]] = Field(default_factory=dict)
    """Further overrides on one base alone, by its name."""

    bases: list[str] | None = None
    """Names of the bases to run on; unset, all."""


class Study(Section):
    """A whole comparison."""

    name: str = Field(pattern=NAME)
    """Short name; the study's folder is called so."""

    seeds: list[int] = Field(min_length=1)
    """Each variant is trained once with each: equal tasks in equal order for all variants."""

    budget: Budget
    """What every run gets."""

    threshold: float = Field(default=0.6, gt=0.0, le=1.0)
    """Training success whose reaching is timed."""

    early_share: float = Field(default=0.5, gt=0.0, le=1.0)
    """Share of the budget that counts as early learning."""

    reference: str = ""
    """Variant that the others are compared with; unset, the first."""

    parallel: int = Field(default=1, ge=1)
    """Runs at a time, each with servers of its own."""

    set: list[str] = Field(default_factory=list)
    """Overrides of every run."""

    bases: list[Base] = Field(min_length=1)
    variants: list[Variant] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        bases, variants = [one.name for one in self.bases], [one.name for one in self.variants]
        for what, names in (("bases", bases), ("variants", variants), ("seeds", self.seeds)):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"{what} has {twice[0]!r} twice; each needs a name of its own")
        if self.reference and self.reference not in variants:
            raise ValueError(f"reference = {self.reference!r} is no variant; there are {', '.join(variants)}")
        for variant in self.variants:
            for name in [*(variant.bases or []), *variant.set_on]:
                if name not in bases:
                    raise ValueError(f"variant {variant.name!r} names base {name!r}; there are {', '.join(bases)}")
        runs = Counter(f"{base.name}-{variant.name}" for base in self.bases for variant in self.variants_on(base))
        if (most := runs.most_common(1)) and most[0][1] > 1:
            raise ValueError(f"two runs would be called {most[0][0]!r}; rename a base or a variant")
        return self

    @property
    def reference_name(self) -> str:
        """The variant that the others are compared with."""
        return self.reference or self.variants[0].name

    def variants_on(self, base: Base) -> list[Variant]:
        """The variants that run on a base."""
        return [one for one in self.variants if one.bases is None or base.name in one.bases]

    def budget_of(self, base: Base) -> Budget:
        """A base's own budget, else the study's."""
        return base.budget or self.budget

    def threshold_of(self, base: Base) -> float:
        """A base's own threshold, else the study's."""
        return self.threshold if base.threshold is None else base.threshold


def load_study(path: Path) -> Study:
    """Read and check a study file; recipes' paths come back absolute. Raises `StudyError`."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise StudyError(
            f"cannot read the study {path}: {error.strerror}. configs/studies/ holds ready ones."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path} is not valid TOML: {error}") from error
    try:
        study = Study.model_validate(document)
    except ValidationError as error:
        faults = "\n".join(f"  {fault}" for fault in recipe_faults(error, Study))
        raise StudyError(f"{path} is not a valid study:\n{faults}") from error
    folder = path.resolve().parent
    bases = [base.model_copy(update={"recipe": (folder / base.recipe).resolve()}) for base in study.bases]
    return study.model_copy(update={"bases": bases})
