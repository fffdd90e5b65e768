"""The trainer: GAGPO on groups of trajectories, and the weights back to the policy servers."""

import os

# OpenMP's threads spin while they wait for each other, and torch reads this when it is first imported. On a machine
# that does anything else besides, spinning made an update with two threads six times slower than with one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
