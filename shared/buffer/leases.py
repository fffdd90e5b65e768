"""Leases on groups, by which several orchestrators share one job: each group has one maker, and none is lost with it.

A lease is taken before a group is made, renewed meanwhile, and given back afterwards. One whose holder died runs out,
and the group goes to somebody else. Leases only save work: that a group enters the buffer once is `GroupWriter`'s
promise, whoever made it.
"""

import secrets
import socket
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shared.buffer.connection import connect_async
from shared.buffer.keys import JobKeys

_SCRIPTS = Path(__file__).parent

GroupPlace = tuple[int, int]
"""Training step and index of a group."""


class GroupLeases:
    """One orchestrator's leases on the groups of a job."""

    def __init__(self, redis_url: str, job: str, lease_s: float, holder: str | None = None) -> None:
        """A lease runs out ``lease_s`` seconds after it was taken or renewed. Opens no connection yet.

        ``holder`` names this orchestrator; a name that nobody else has by default.
        """
        self._redis = connect_async(redis_url)
        self._keys = JobKeys(job)
        self._life_ms = max(1, round(lease_s * 1000))
        self.holder = holder or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._take = self._redis.register_script((_SCRIPTS / "lease_take.lua").read_text())
        self._renew = self._redis.register_script((_SCRIPTS / "lease_renew.lua").read_text())
        self._give_back = self._redis.register_script((_SCRIPTS / "lease_give_back.lua").read_text())

    async def __aenter__(self) -> Self:
        """Return the leases themselves."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections. What is still leased runs out."""
        await self._redis.aclose()

    async def take(self, candidates: Sequence[GroupPlace], room: int, held: int) -> list[GroupPlace]:
        """Lease up to ``room`` of the candidates, the first ones first, and no more than a fair share.

        ``candidates`` are the groups that seem to be missing, without the ``held`` ones that this orchestrator is
        making. The share is what is missing over the number of orchestrators at work. A group that is in the buffer by
        now is not leased.
        """
        keys = self._keys
        taken = await self._take(
            keys=[keys.leases, keys.makers, keys.seen, keys.frontier],
            args=[self.holder, self._life_ms, room, held, *map(_field, candidates)],
        )
        return [_place(field) for field in taken]

    async def renew(self, places: Collection[GroupPlace]) -> list[GroupPlace]:
        """Prolong leases, and say that this orchestrator is at work. Returns the groups that others make by now."""
        lost = await self._renew(
            keys=[self._keys.leases, self._keys.makers], args=[self.holder, self._life_ms, *map(_field, places)]
        )
        return [_place(field) for field in lost]

    async def give_back(self, places: Collection[GroupPlace]) -> None:
        """End leases; those that others have by now stay theirs."""
        if places:
            await self._give_back(keys=[self._keys.leases], args=[self.holder, *map(_field, places)])

    async def leave(self) -> None:
        """No longer count as being at work."""
        await self._redis.zrem(self._keys.makers, self.holder)


def _field(place: GroupPlace) -> str:
    step, index = place
    return f"{step}:{index}"


def _place(field: bytes) -> GroupPlace:
    step, index = field.split(b":")
    return int(step), int(index)
