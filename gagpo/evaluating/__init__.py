"""``gagpo eval``: any policy on any environment, and two reports compared."""
