"""Which replicas a server has by now: host names are looked up anew every few seconds."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from shared.addresses import Address, Lookup, address, host_of, look_up

logger = logging.getLogger(__name__)

REFRESH_S = 3.0
"""How often host names are looked up."""

_LOOKUP_DEADLINE_S = 10.0
_DOWN_FIRST_S = 1.0
_DOWN_MOST_S = 30.0


@dataclass(slots=True, eq=False)
class Replica:
    """One server of several alike."""

    address: Address
    in_flight: int = 0
    failures: int = 0
    """How often it could not be reached: whoever knows something of it knows it only until the next time."""
    _answered: bool = False
    _failures_in_a_row: int = 0
    _down_until: float = 0.0

    @property
    def url(self) -> str:
        """Its base URL."""
        return self.address.url

    @property
    def down(self) -> bool:
        """It could not be reached a moment ago: others go first."""
        return time.monotonic() < self._down_until

    @property
    def reachable(self) -> bool | None:
        """Whether it could be reached when last tried; None before the first try."""
        if self._failures_in_a_row:
            return False
        return True if self._answered else None

    def count_failure(self) -> None:
        """It could not be reached. The more often in a row, the longer others go first."""
        pause = min(_DOWN_FIRST_S * 2.0**self._failures_in_a_row, _DOWN_MOST_S)
        self.failures += 1
        self._failures_in_a_row += 1
        self._down_until = time.monotonic() + pause

    def count_answer(self) -> None:
        """It was reached."""
        self._answered, self._failures_in_a_row, self._down_until = True, 0, 0.0


class Membership:
    """The replicas behind some URLs, kept up to date while `keep_up` runs."""

    def __init__(self, urls: Sequence[str], lookup: Lookup = look_up) -> None:
        """Raises ValueError for something that is no URL."""
        self._lookup = lookup
        self._by_url: dict[str, list[Replica]] = {url: [] for url in urls}
        for url in urls:
            if host_of(url) is None:
                self._by_url[url] = [Replica(address(url))]

    @property
    def replicas(self) -> list[Replica]:
        """Those that are named now."""
        return [replica for replicas in self._by_url.values() for replica in replicas]

    async def refresh(self) -> None:
        """Look up every host name. One that cannot be looked up keeps the replicas that it had."""
        await asyncio.gather(*(self._refresh(url, host) for url in self._by_url if (host := host_of(url)) is not None))

    async def keep_up(self, every_s: float) -> None:
        """Refresh for ever."""
        while any(host_of(url) is not None for url in self._by_url):
            await asyncio.sleep(every_s)
            await self.refresh()

    async def _refresh(self, url: str, host: str) -> None:
        before = {replica.address: replica for replica in self._by_url[url]}
        try:
            async with asyncio.timeout(_LOOKUP_DEADLINE_S):
                found = [address(url, ip) for ip in await self._lookup(host)]
        except OSError as error:  # TimeoutError is one
            logger.warning("%s could not be looked up: %s", host, error or type(error).__name__, extra={"url": url})
            return
        self._by_url[url] = [before.get(one) or Replica(one) for one in found]
        came, went = set(found) - set(before), set(before) - set(found)
        if came or went:
            logger.info(
                "%s has %d replicas now: %d came, %d went", host, len(found), len(came), len(went), extra={"url": url}
            )


def choose(replicas: Sequence[Replica], usable: Callable[[Replica], bool]) -> Replica | None:
    """The usable one with the fewest requests in flight; one that seems to be down only if all are. None for none."""
    return min(filter(usable, replicas), key=lambda replica: (replica.down, replica.in_flight), default=None)


async def cancel(task: "asyncio.Task[None]") -> None:
    """End a background task; what it failed with is raised."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
