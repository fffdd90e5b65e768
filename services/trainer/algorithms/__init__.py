"""Credit assignment: one short file for each algorithm."""

from services.trainer.algorithms.base import Algorithm, CreditEpisode, CreditGroup, GroupCredit, LossKind
from services.trainer.algorithms.custom import Custom, Estimator, EstimatorError
from services.trainer.algorithms.gagpo import Gagpo
from services.trainer.algorithms.gigpo import Gigpo
from services.trainer.algorithms.grpo import Grpo
from services.trainer.algorithms.ppo import Ppo
from services.trainer.algorithms.rloo import Rloo
from shared.recipe import (
    AnyAlgorithm,
    CustomSettings,
    GagpoSettings,
    GigpoSettings,
    GrpoSettings,
    PpoSettings,
    Recipe,
    RlooSettings,
)

__all__ = [
    "Algorithm",
    "CreditEpisode",
    "CreditGroup",
    "Custom",
    "Estimator",
    "EstimatorError",
    "Gagpo",
    "Gigpo",
    "GroupCredit",
    "Grpo",
    "LossKind",
    "Ppo",
    "Rloo",
    "algorithm_of",
    "make_algorithm",
]


def make_algorithm(recipe: Recipe) -> Algorithm:
    """The algorithm that a recipe names, with its settings.

    Raises `EstimatorError` for one of somebody's own that is not there, or whose options are wrong.
    """
    return algorithm_of(recipe.algorithm, recipe.min_std)


def algorithm_of(settings: AnyAlgorithm, min_std: float) -> Algorithm:
    """The algorithm of some settings; ``min_std`` is the floor of its normalising divisor, if it has one."""
    match settings:
        case GagpoSettings():
            return Gagpo(settings, min_std)
        case GigpoSettings():
            return Gigpo(settings, min_std)
        case GrpoSettings():
            return Grpo(settings, min_std)
        case RlooSettings():
            return Rloo(settings)
        case PpoSettings():
            return Ppo(settings, min_std)
        case CustomSettings():
            return Custom(settings, min_std)
