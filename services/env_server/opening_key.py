"""Sessions opened under a key that the client chose, so that asking again opens nothing twice.

The sessions' ids follow from the key and the request. So a repeat names the same sessions on every replica, and nothing
needs to be kept beside the journal.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b

import msgspec

from services.env_server.worker_protocol import Birth

KEY_PATTERN = r"^[\x21-\x7e]{1,255}$"
"""What a key may be: visible ASCII characters. Clients take something nobody else takes, such as a UUID."""

_ID_BYTES = 16


def keyed_session_ids(key: str, birth: Birth, count: int) -> list[str]:
    """The ids of the sessions that a request opens under a key; under the same key another request has other ids."""
    request = msgspec.json.encode((key, birth, count), order="sorted")
    digests = [
        blake2b(request, digest_size=_ID_BYTES, person=b"session", salt=_place(n)).digest() for n in range(count)
    ]
    return [urlsafe_b64encode(digest).decode().rstrip("=") for digest in digests]


def _place(number: int) -> bytes:
    return number.to_bytes(4, "big")


class KeyedOpenings:
    """The openings under a key that are at work: a repeat waits for the first."""

    def __init__(self) -> None:
        """None at first."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        """Hold an opening, which goes by the id of its first session."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._users[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._locks[name]
