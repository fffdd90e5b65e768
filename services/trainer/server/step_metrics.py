"""Prometheus metrics of the running job's latest training step, from the event with which its worker told it."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge
from pydantic import JsonValue

_PHASES = "seconds_"
"""How the names of a step's phases begin."""


class StepMetrics:
    """What a training step was like; docs/gagpo.md says what each figure means."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Nothing is shown before the first step."""

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"gagpo_trainer_{name}", about, labels, registry=registry)

        self._phases = gauge("step_seconds", "Time of the latest training step by phase", "phase")
        self._success = gauge("success_ratio", "Share of its episodes that were won", "environment")
        self._score = gauge("score_mean", "Mean score of its episodes", "environment")
        self._staleness = gauge("staleness_versions", "Versions between generating and training", "statistic")
        self._tokens = gauge("tokens_per_second", "Tokens generated and trained a second", "kind")
        self._update = gauge("update", "Figures of the update, as docs/gagpo.md defines them", "figure")

    def show(self, metrics: Mapping[str, JsonValue]) -> None:
        """Show the step with these metrics in place of the one before; an empty mapping shows none."""
        for gauge in (self._phases, self._success, self._score, self._staleness, self._tokens, self._update):
            gauge.clear()
        for name, value in metrics.items():
            if name.startswith(_PHASES):
                _set(self._phases, name.removeprefix(_PHASES), value)
        for statistic in ("mean", "max"):
            _set(self._staleness, statistic, metrics.get(f"staleness_{statistic}"))
        for kind in ("generated", "trained"):
            _set(self._tokens, kind, metrics.get(f"tokens_per_s_{kind}"))
        for figure in ("loss", "kl_reference", "kl_old_new", "clip_fraction", "entropy", "grad_norm"):
            _set(self._update, figure, metrics.get(figure))
        environments = metrics.get("environments")
        for name, figures in environments.items() if isinstance(environments, dict) else ():
            if isinstance(figures, dict):
                _set(self._success, name, figures.get("success_rate"))
                _set(self._score, name, figures.get("mean_score"))


def _set(gauge: Gauge, label: str, value: JsonValue) -> None:
    """A figure that the step has no number for (null stands for NaN) is not shown."""
    if isinstance(value, int | float):
        gauge.labels(label).set(value)
