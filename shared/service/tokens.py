"""Bearer tokens: which there are, what each opens, and which one a client shows.

``GAGPO_TOKEN`` opens everything; ``GAGPO_TOKEN_ENVIRONMENTS``, ``…_GENERATE``, ``…_WEIGHTS`` and ``…_JOBS`` open one
scope each. Servers and clients read the same variables.
"""

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Self

ALL_SCOPES_VARIABLE = "GAGPO_TOKEN"
SHORTEST_TOKEN = 16
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What an Authorization header can carry (RFC 6750 §2.1)."""

_NONE: frozenset["Scope"] = frozenset()


class Scope(StrEnum):
    """What a token may be good for."""

    ENVIRONMENTS = "environments"
    """Listing environments, opening sessions, stepping them."""
    GENERATE = "generate"
    """Asking the policy for tokens."""
    WEIGHTS = "weights"
    """Changing the policy's weights."""
    JOBS = "jobs"
    """Submitting, following and cancelling training jobs; the orchestrator's status."""

    @property
    def variable(self) -> str:
        """The variable that holds this scope's own token."""
        return f"{ALL_SCOPES_VARIABLE}_{self.name}"


class TokenError(ValueError):
    """A variable holds something that can't be a token; the message names the variable and never its value."""


class Tokens:
    """The tokens that a server knows. Only their digests are kept, so that no log or traceback can show one."""

    def __init__(self, tokens: Iterable[tuple[str, Iterable[Scope]]] = ()) -> None:
        """Each token with what it opens; the same token twice opens both."""
        self._scopes: dict[bytes, frozenset[Scope]] = {}
        for token, scopes in tokens:
            digest = _digest(token.encode())
            self._scopes[digest] = self._scopes.get(digest, _NONE) | frozenset(scopes)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The tokens that the variables name; an empty variable is none. Raises `TokenError`."""
        places: list[tuple[str, Iterable[Scope]]] = [(ALL_SCOPES_VARIABLE, Scope)]
        places += [(scope.variable, [scope]) for scope in Scope]
        given = [(_checked(name, environment), scopes) for name, scopes in places]
        return cls((token, scopes) for token, scopes in given if token is not None)

    def open(self, scope: Scope) -> bool:
        """Whether any token opens this scope."""
        return any(scope in scopes for scopes in self._scopes.values())

    def scopes_of(self, presented: bytes) -> frozenset[Scope]:
        """What a presented token opens; nothing for an unknown one. Takes as long whichever it is."""
        digest, opened = _digest(presented), _NONE
        for known, scopes in self._scopes.items():
            if hmac.compare_digest(known, digest):
                opened = scopes
        return opened


def client_token(scope: Scope, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token that a client shows for this scope: the scope's own, else the one for all. Raises `TokenError`."""
    return _checked(scope.variable, environment) or _checked(ALL_SCOPES_VARIABLE, environment)


def authorization(scope: Scope, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The header that a client sends along; none without a token. Raises `TokenError`."""
    token = client_token(scope, environment)
    return {} if token is None else {"authorization": f"Bearer {token}"}


def without_tokens(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that hold tokens, for a process that has no business with them."""
    secret = {ALL_SCOPES_VARIABLE, *(scope.variable for scope in Scope)}
    return {name: value for name, value in environment.items() if name not in secret}


def _checked(name: str, environment: Mapping[str, str]) -> str | None:
    token = environment.get(name, "").strip()
    if not token:
        return None
    remedy = "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
    if len(token) < SHORTEST_TOKEN:
        raise TokenError(f"{name} has {len(token)} characters; a token needs at least {SHORTEST_TOKEN}: {remedy}")
    if not _TOKEN.fullmatch(token):
        raise TokenError(f"{name} holds characters that a bearer token can't have: {remedy}")
    return token


def _digest(token: bytes) -> bytes:
    """Of one length whatever the token's, so that comparing tells nothing about the length either."""
    return hashlib.sha256(token).digest()
