"""A person plays an environment in the terminal: how pages look, and what may be typed."""

from gagpo.playing.game import play_episode
from gagpo.playing.known import UnknownEnvironmentError, check_known

__all__ = ["UnknownEnvironmentError", "check_known", "play_episode"]
