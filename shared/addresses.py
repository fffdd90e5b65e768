"""The addresses behind a service's URLs: one name may stand for several replicas of a server.

Container networks and headless services answer a name with the address of every replica, and the answer changes as
replicas come and go; whoever wants to reach all of them has to look again.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

Lookup = Callable[[str], Awaitable[list[str]]]
"""Host name → its IP addresses. Raises OSError where there are none."""


@dataclass(frozen=True, slots=True)
class Address:
    """One replica of the server that a URL names."""

    url: str
    """Base URL with the replica's IP address for the host name, without a slash at the end."""
    host: str
    """What requests say as their ``Host``: the name and port of the URL as it was given."""
    tls_name: str | None
    """The name in the server's certificate, for ``https``."""


def host_of(url: str) -> str | None:
    """The host name in a URL that has to be looked up; None for an IP address. Raises ValueError for no URL."""
    host = _split(url).hostname
    assert host is not None
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    return None


def address(url: str, ip: str | None = None) -> Address:
    """The replica of ``url`` at an IP address; ``url`` as it is without one."""
    parts = _split(url)
    base = url.rstrip("/")
    if ip is not None:
        shown = f"[{ip}]" if ":" in ip else ip
        base = parts._replace(netloc=shown if parts.port is None else f"{shown}:{parts.port}").geturl().rstrip("/")
    host = parts.netloc.rpartition("@")[2]
    return Address(base, host, parts.hostname if parts.scheme == "https" and ip is not None else None)


async def look_up(host: str) -> list[str]:
    """All IP addresses of a host, sorted. Raises OSError where there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return _preferred([str(entry[4][0]) for entry in found])


def look_up_blocking(host: str) -> list[str]:
    """`look_up` without asyncio."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return _preferred([str(entry[4][0]) for entry in found])


def _preferred(found: list[str]) -> list[str]:
    """IPv4 where there is any: a host with addresses of both kinds is one replica, not two."""
    return sorted({ip for ip in found if ":" not in ip} or set(found))


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a server: it should read like http://env-server:8001")
    return parts
