"""Credit assignment: one short file for each algorithm."""

from services.trainer.algorithms.base import Algorithm, CreditEpisode, CreditGroup, GroupCredit, LossKind
from services.trainer.algorithms.gagpo import Gagpo
from shared.recipe import GagpoSettings, Recipe

__all__ = ["Algorithm", "CreditEpisode", "CreditGroup", "Gagpo", "GroupCredit", "LossKind", "make_algorithm"]


def make_algorithm(recipe: Recipe) -> Algorithm:
    """The algorithm that a recipe names, with its settings."""
    settings = recipe.algorithm
    if not isinstance(settings, GagpoSettings):
        raise NotImplementedError(f"algorithm.name = {settings.name!r}")
    return Gagpo(settings, recipe.min_std)
