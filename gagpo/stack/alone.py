"""An env server by itself, for as long as a program needs it."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gagpo.ports import free_port
from gagpo.stack.processes import ProcessGroup
from gagpo.stack.servers import env_server_spec


@contextmanager
def local_env_server(*environments: str, workers: int = 1, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve ``environments`` (without a name, every registered one) on this machine; gives the URL of the server.

    ``workers`` are its processes beside the one that answers, ``variables`` more of its environment variables, such as
    ``ALFWORLD_DATA``; those of this process it sees anyhow. It ends with the ``with`` block. For the main thread only.
    Raises `ServiceDiedError` where the server does not start; the message is its own.
    """
    with starting_env_server(*environments, workers=workers, variables=variables) as (url, wait_ready):
        wait_ready()
        yield url


@contextmanager
def starting_env_server(
    *environments: str, workers: int = 1, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """As `local_env_server`, but at once: gives the URL, and what waits until the server answers there.

    The waiting may be done in any thread, and again: it raises `ServiceDiedError` for a server that has ended, too.
    """
    url = f"http://127.0.0.1:{free_port()}"
    settings = {"GAGPO_ENV_WORKERS": str(workers), **(variables or {})}
    with tempfile.TemporaryDirectory(prefix="gagpo-env-server-") as logs, ProcessGroup(Path(logs)) as processes:
        processes.start(env_server_spec(url, environments or None, settings))
        yield url, processes.wait_ready
