"""The trainer service's routes, and what opens them."""

from shared.service import Access, Scope

ACCESS = [Access("/v1", {Scope.JOBS})]
