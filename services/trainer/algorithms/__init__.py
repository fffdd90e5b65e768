"""Credit assignment: one short file for each algorithm."""

from services.trainer.algorithms.base import Algorithm, CreditEpisode, CreditGroup, GroupCredit, LossKind
from services.trainer.algorithms.gagpo import Gagpo
from shared.recipe import Recipe

__all__ = ["Algorithm", "CreditEpisode", "CreditGroup", "Gagpo", "GroupCredit", "LossKind", "make_algorithm"]


def make_algorithm(recipe: Recipe) -> Algorithm:
    """The algorithm that a recipe names, with its settings."""
    return Gagpo(recipe.algorithm, recipe.min_std)
