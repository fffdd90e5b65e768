"""Whether an address can be listened on, and what to do when it can't."""

import errno
import socket


class ListenError(Exception):
    """The address can't be listened on; the message says why, and what to do."""


def listener(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 takes a free one. Raises `ListenError`."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ListenError(f"port: can't listen on {host}:{port}: {error.strerror}{_remedy(error, port)}") from error
    return bound


def _remedy(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        tell = f"ss -ltnp 'sport = :{port}'"
        return f". Another process listens there ({tell} tells which): end it, or take another port with --port"
    if error.errno == errno.EACCES:
        return ". Ports below 1024 are the system's: take another with --port"
    return ". --host names an address of this machine"
