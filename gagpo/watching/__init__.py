"""A remote job's progress in the terminal: what its events add up to, and how that is shown."""

from gagpo.watching.lines import LineView, first_line, outcome_line
from gagpo.watching.live import LiveView
from gagpo.watching.standing import Standing, TrainedStep
from gagpo.watching.turns import AllEpisodes, OneEpisode
from gagpo.watching.view import View

__all__ = [
    "AllEpisodes",
    "LineView",
    "LiveView",
    "OneEpisode",
    "Standing",
    "TrainedStep",
    "View",
    "first_line",
    "outcome_line",
]
