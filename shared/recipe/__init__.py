"""Recipes: what a training job is, as typed TOML. Imports neither torch nor vllm, so that any client can check one."""

from shared.recipe.algorithm import (
    AdvantageKind,
    GagpoSettings,
    Normalisation,
    RatioKind,
    Spread,
    ValuePool,
    Visits,
)
from shared.recipe.environment import EnvironmentSettings, PromptSettings, RewardSettings, SamplingDefaults
from shared.recipe.load import (
    RecipeError,
    RecipeFault,
    load_document,
    load_recipe,
    parse_recipe,
    recipe_faults,
    save_recipe,
)
from shared.recipe.model import (
    EvaluationSettings,
    ModelSettings,
    OldLogprobs,
    OptimizerSettings,
    Recipe,
    RolloutSettings,
    TrackingSettings,
    TrainingSettings,
    WeightSettings,
    WeightTransport,
)

__all__ = [
    "AdvantageKind",
    "EnvironmentSettings",
    "EvaluationSettings",
    "GagpoSettings",
    "ModelSettings",
    "Normalisation",
    "OldLogprobs",
    "OptimizerSettings",
    "PromptSettings",
    "RatioKind",
    "Recipe",
    "RecipeError",
    "RecipeFault",
    "RewardSettings",
    "RolloutSettings",
    "SamplingDefaults",
    "Spread",
    "TrackingSettings",
    "TrainingSettings",
    "ValuePool",
    "Visits",
    "WeightSettings",
    "WeightTransport",
    "load_document",
    "load_recipe",
    "parse_recipe",
    "recipe_faults",
    "save_recipe",
]
