"""Prometheus metrics of the weights; those of requests and tokens are vLLM's own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class PolicyMetrics:
    """All metrics by name; the help texts say what they count."""

    def __init__(self) -> None:
        """All at zero."""
        self.registry = CollectorRegistry()
        self._version = Gauge("gagpo_policy_weights_version", "Version of the weights served", registry=self.registry)
        self._pushes = Counter(
            "gagpo_policy_weight_pushes_total",
            "Pushes of weights: loaded, failed",
            ["transport", "outcome"],
            registry=self.registry,
        )
        self._push_seconds = Histogram(
            "gagpo_policy_weight_push_seconds",
            "Time of a push, from request to serving",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._pause_seconds = Histogram(
            "gagpo_policy_weight_pause_seconds",
            "Time for which a push held generation up",
            buckets=_SECONDS,
            registry=self.registry,
        )

    @contextmanager
    def pushing(self, transport: str) -> Iterator[None]:
        """Count and time a push; one that raises has failed."""
        started = time.perf_counter()
        try:
            yield
        except BaseException:
            self._pushes.labels(transport, "failed").inc()
            raise
        self._pushes.labels(transport, "loaded").inc()
        self._push_seconds.observe(time.perf_counter() - started)

    def serves(self, version: int, pause_s: float | None) -> None:
        """These weights are served now; ``pause_s`` is None for those that the server began with."""
        self._version.set(version)
        if pause_s is not None:
            self._pause_seconds.observe(pause_s)
