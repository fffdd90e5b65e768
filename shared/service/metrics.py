"""The Prometheus page of a service."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response


def metrics_response(*registries: CollectorRegistry) -> Response:
    """The answer to ``GET /metrics``: what is in the registries, whose metrics must not share names."""
    return Response(b"".join(map(generate_latest, registries)), media_type=CONTENT_TYPE_LATEST)
