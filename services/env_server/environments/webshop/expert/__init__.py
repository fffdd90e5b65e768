"""Shops with full knowledge of the goal: the shortest ways to a reward of 1, and ways that miss it on purpose."""

from services.env_server.environments.webshop.expert.expert import Expert
from services.env_server.environments.webshop.expert.hasty import HastyExpert

__all__ = ["Expert", "HastyExpert"]
