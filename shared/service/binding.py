"""Where a service listens: beyond this machine only when a token is asked for."""

import ipaddress
import logging
from collections.abc import Sequence

from shared.service.auth import Access
from shared.service.tokens import ALL_SCOPES_VARIABLE, Scope, Tokens

logger = logging.getLogger(__name__)


def listening_host(host: str, tokens: Tokens, access: Sequence[Access]) -> str:
    """The address to listen on: ``host``, or loopback where no token opens this service, which is then logged."""
    scopes = sorted({scope for rule in access for scope in rule.scopes}, key=list(Scope).index)
    shut = [scope for scope in scopes if not tokens.open(scope)]
    if len(shut) < len(scopes):
        for scope in shut:
            logger.warning("no token has the scope %s, so nobody can use it: set %s", scope, scope.variable)
        return host
    if is_loopback(host):
        return host
    loopback = "::1" if ":" in host else "127.0.0.1"
    names = " or ".join([ALL_SCOPES_VARIABLE, *(scope.variable for scope in scopes)])
    logger.warning(
        "no token is set, so this service listens on %s only, not on %s: set %s to serve other machines",
        loopback,
        host,
        names,
    )
    return loopback


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address. A name other than ``localhost`` counts as reachable."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
