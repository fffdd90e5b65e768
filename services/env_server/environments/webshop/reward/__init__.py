"""What a purchase is worth."""

from services.env_server.environments.webshop.reward.score import Score, score, value_matches, wanted_options

__all__ = ["Score", "score", "value_matches", "wanted_options"]
