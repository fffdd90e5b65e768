"""A training run on this machine: its folder, its progress, and what is reported at its end."""

from gagpo.training.local_run import train_locally
from gagpo.training.run_folder import RunFolder, RunFolderError, claim_run_folder

__all__ = ["RunFolder", "RunFolderError", "claim_run_folder", "train_locally"]
