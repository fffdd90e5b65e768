"""Credit assignment: one short file for each algorithm."""

from services.trainer.algorithms.base import Algorithm, CreditEpisode, CreditGroup, GroupCredit, LossKind
from services.trainer.algorithms.gagpo import Gagpo
from services.trainer.algorithms.gigpo import Gigpo
from services.trainer.algorithms.grpo import Grpo
from services.trainer.algorithms.ppo import Ppo
from services.trainer.algorithms.rloo import Rloo
from shared.recipe import GagpoSettings, GigpoSettings, GrpoSettings, PpoSettings, Recipe, RlooSettings

__all__ = [
    "Algorithm",
    "CreditEpisode",
    "CreditGroup",
    "Gagpo",
    "Gigpo",
    "GroupCredit",
    "Grpo",
    "LossKind",
    "Ppo",
    "Rloo",
    "make_algorithm",
]


def make_algorithm(recipe: Recipe) -> Algorithm:
    """The algorithm that a recipe names, with its settings."""
    match recipe.algorithm:
        case GagpoSettings() as settings:
            return Gagpo(settings, recipe.min_std)
        case GigpoSettings() as settings:
            return Gigpo(settings, recipe.min_std)
        case GrpoSettings() as settings:
            return Grpo(settings, recipe.min_std)
        case RlooSettings() as settings:
            return Rloo(settings)
        case PpoSettings() as settings:
            return Ppo(settings, recipe.min_std)
