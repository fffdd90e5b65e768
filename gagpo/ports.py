"""TCP ports of this machine."""

import socket

from shared.service.listening import ListenError, listener


class PortTakenError(Exception):
    """A port that a service was to have can't be listened on; the message names the option."""


def free_port() -> int:
    """A port of the loopback interface that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_port(port: int, service: str, option: str) -> None:
    """Raise `PortTakenError` unless ``service`` can listen at that port of the loopback interface."""
    try:
        listener("127.0.0.1", port).close()
    except ListenError as error:
        raise PortTakenError(f"{service}: {str(error).removeprefix('port: ').replace('--port', option)}") from error
