"""``python -m gagpo``: the same as ``gagpo``."""

from gagpo.cli import app

app()
