"""The env server's routes, one module for each resource."""

from shared.service import Access, Scope

ACCESS = (Access("/v1", {Scope.ENVIRONMENTS}), Access("/openenv", {Scope.ENVIRONMENTS}))
"""Which tokens open them."""
