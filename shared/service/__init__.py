"""What all services share beside their schemas: tokens, limits, request ids, metrics, and how they listen."""

from shared.service.auth import Access
from shared.service.binding import listening_host
from shared.service.install import install_service
from shared.service.limits import MAX_BODY_BYTES
from shared.service.metrics import metrics_response
from shared.service.tokens import Scope, TokenError, Tokens, authorization, client_token, without_tokens

__all__ = [
    "MAX_BODY_BYTES",
    "Access",
    "Scope",
    "TokenError",
    "Tokens",
    "authorization",
    "client_token",
    "install_service",
    "listening_host",
    "metrics_response",
    "without_tokens",
]
