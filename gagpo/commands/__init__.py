"""The verbs of the ``gagpo`` command, one file each."""
