"""What a purchase is worth."""

from services.env_server.environments.webshop.reward.score import Score, score

__all__ = ["Score", "score"]
