"""The whole system on one machine, as processes and without containers."""

from gagpo.stack.processes import ProcessGroup, ServiceDiedError, ServiceSpec
from gagpo.stack.system import LocalSystem, SystemSettings

__all__ = ["LocalSystem", "ProcessGroup", "ServiceDiedError", "ServiceSpec", "SystemSettings"]
