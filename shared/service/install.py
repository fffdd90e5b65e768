"""What every service's app has around its routes."""

from collections.abc import Sequence

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from shared.problems import install_problem_handlers
from shared.service.auth import Access, BearerAuth
from shared.service.limits import MAX_BODY_BYTES, BodyLimit
from shared.service.openapi import document_problems, document_tokens
from shared.service.requests import RequestRecord
from shared.service.stopping import StoppingAnswer
from shared.service.tokens import Tokens


def install_service(
    app: FastAPI,
    *,
    service: str,
    tokens: Tokens,
    access: Sequence[Access],
    registry: CollectorRegistry,
    max_body_bytes: int | None = MAX_BODY_BYTES,
) -> None:
    """Problem documents, also when the service stops; request ids, the count of requests, tokens, the limit on bodies.

    ``service`` is the word in the metrics' names; ``registry`` gets the count of requests. A limit of None is for an
    app whose routes bound what they read by themselves. Without any token for the service's scopes everybody may use
    it: `shared.service.listening_host` keeps it to this machine then. An app that has an ``openapi`` of its own sets it
    before this, which adds what tokens open.
    """
    install_problem_handlers(app)
    document_problems(app)
    # The last one added is the outermost.
    if max_body_bytes is not None:
        app.add_middleware(BodyLimit, most_bytes=max_body_bytes)
    if any(tokens.open(scope) for rule in access for scope in rule.scopes):
        app.add_middleware(BearerAuth, tokens=tokens, access=access)
        document_tokens(app, access)
    app.add_middleware(StoppingAnswer)
    app.add_middleware(RequestRecord, service=service, registry=registry)
