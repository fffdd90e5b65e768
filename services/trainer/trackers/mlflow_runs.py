"""Runs on an MLflow server, or in a folder that MLflow keeps them in."""

import importlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from services.trainer.trackers.tracker import TrackedJob, TrackerError
from shared.recipe import Recipe
from shared.schemas.job import JobState
from shared.tracking_checks import mlflow_uri

NAME = "mlflow"

STEP_METRIC = "version"
"""A number that every training step has: its history tells which steps are there."""

_STATES = {JobState.COMPLETED: "FINISHED", JobState.CANCELLED: "KILLED", JobState.FAILED: "FAILED", None: "KILLED"}
_PARAMS_A_REQUEST = 100
_LONGEST_PARAM = 6000
_NOT_IN_A_NAME = re.compile(r"[^\w\-. :/]")

_PACKAGE_SETTINGS = {
    # By itself the package tries for four minutes before it says that a server is away.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # the log is JSON
}
"""What the user set stays."""


class MlflowRuns:
    """One run there for each run folder."""

    def __init__(self, job: TrackedJob) -> None:
        """Go on with the folder's run, or begin one. Raises `ImportError` without the package, and `TrackerError`."""
        uri, tracking = mlflow_uri(job.recipe.tracking), job.recipe.tracking
        for name, value in _PACKAGE_SETTINGS.items():
            os.environ.setdefault(name, value)
        if uri.startswith("file:"):
            # MLflow asks whoever uses a folder to say so, since it adds no more features there.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        mlflow = importlib.import_module(NAME)  # an extra
        self._entities: Any = importlib.import_module("mlflow.entities")
        self._client: Any = mlflow.MlflowClient(tracking_uri=uri)
        known = job.known_id(NAME)
        self._run = self._begun(job, tracking.mlflow_experiment) if known is None else self._resumed(job, known)
        self.next_step = 1 + max((int(point.step) for point in self._history()), default=-1)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """All of a step in one request."""
        now_ms = int(1000 * time.time())
        metrics = [
            self._entities.Metric(_NOT_IN_A_NAME.sub("_", name), float(value), now_ms, step)
            for name, value in numbers.items()
        ]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, state: JobState | None) -> None:
        """Note how the job ended; one that goes on later is marked as running again then."""
        self._client.set_terminated(self._run, _STATES[state])

    def _begun(self, job: TrackedJob, experiment: str) -> str:
        found = self._client.get_experiment_by_name(experiment)
        identity = self._client.create_experiment(experiment) if found is None else found.experiment_id
        run: str = self._client.create_run(identity, run_name=job.job, tags={"gagpo.job": job.job}).info.run_id
        job.remember(NAME, run)
        parameters = [self._entities.Param(name, value) for name, value in _parameters(job.recipe)]
        for start in range(0, len(parameters), _PARAMS_A_REQUEST):
            self._client.log_batch(run, params=parameters[start : start + _PARAMS_A_REQUEST])
        return run

    def _resumed(self, job: TrackedJob, known: str) -> str:
        try:
            self._client.update_run(known, status="RUNNING")
        except Exception as error:
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise TrackerError(
                f"the server has no run {known}, with which this job began: bring it back, or delete "
                f"{job.folder / 'trackers'} to have the job begin another"
            ) from error
        return known

    def _history(self) -> Any:
        return self._client.get_metric_history(self._run, STEP_METRIC)


def _parameters(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """The recipe's fields by their dotted names."""
    return _dotted("", recipe.model_dump(mode="json"))


def _dotted(prefix: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _dotted(f"{prefix}.{key}" if prefix else key, inner)
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for place, inner in enumerate(value):
            yield from _dotted(f"{prefix}.{place}", inner)
    else:
        yield prefix, str(value)[:_LONGEST_PARAM]
