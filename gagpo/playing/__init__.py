"""A person plays an environment in the terminal: how pages look, and what may be typed."""

from gagpo.playing.game import play_episode

__all__ = ["play_episode"]
