"""The whole system on one machine, as processes and without containers."""

from gagpo.stack.alone import local_env_server, starting_env_server
from gagpo.stack.job import LocalJob
from gagpo.stack.processes import ProcessGroup, ServiceDiedError, ServiceSpec
from gagpo.stack.servers import LocalServers, ServerSettings
from gagpo.stack.service_set import ServiceSet
from gagpo.stack.system import LocalSystem, SystemSettings, redis_from_environment, weights_pointer

__all__ = [
    "LocalJob",
    "LocalServers",
    "LocalSystem",
    "ProcessGroup",
    "ServerSettings",
    "ServiceDiedError",
    "ServiceSet",
    "ServiceSpec",
    "SystemSettings",
    "local_env_server",
    "redis_from_environment",
    "starting_env_server",
    "weights_pointer",
]
