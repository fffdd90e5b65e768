"""The readings of the environments that a small policy can learn."""

from services.trainer.small_policy.reading import Reading
from services.trainer.small_policy.readings import alfworld, webshop

READINGS: dict[str, Reading] = {"alfworld": alfworld.READING, "webshop": webshop.READING}
"""By the environment's name."""
