"""What state keys are made of: short digests, so that a key costs the wire and the buffer next to nothing."""

from hashlib import blake2b


def digest(data: bytes) -> bytes:
    """Eight bytes that stand for ``data``."""
    return blake2b(data, digest_size=8).digest()


def encoded(text: str) -> bytes:
    """Any text as bytes, halves of surrogate pairs included: a policy may write them."""
    return text.encode("utf-8", "surrogatepass")


def history_after(history: bytes, action: str, observation: str) -> bytes:
    """The digest of a history that went on with an action and what was seen then."""
    return digest(b"\0".join((history, encoded(action), encoded(observation))))
