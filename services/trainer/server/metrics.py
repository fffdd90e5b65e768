"""Prometheus metrics of the trainer service, in a registry of their own so that two may live in one process."""

from collections import Counter as Count
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge
from pydantic import JsonValue

from services.trainer.server.step_metrics import StepMetrics
from shared.schemas.job import Job, JobState


class TrainerMetrics:
    """All metrics by name; the help texts say what they count."""

    def __init__(self) -> None:
        """All at zero."""
        self.registry = CollectorRegistry()
        self.jobs = Gauge("gagpo_trainer_jobs", "Jobs by state", ["state"], registry=self.registry)
        self.policy_version = Gauge(
            "gagpo_trainer_policy_version", "Training steps done of the running job", registry=self.registry
        )
        self.steps = Gauge(
            "gagpo_trainer_steps", "Training steps that the running job's recipe asks for", registry=self.registry
        )
        self.submitted = Counter(
            "gagpo_trainer_jobs_submitted_total", "Jobs taken into the queue", registry=self.registry
        )
        self.refused = Counter(
            "gagpo_trainer_submissions_refused_total", "Submissions refused", ["kind"], registry=self.registry
        )
        self.worker_restarts = Counter(
            "gagpo_trainer_worker_restarts_total",
            "Training processes started again after they were lost",
            registry=self.registry,
        )
        self.streams = Gauge("gagpo_trainer_streams", "Streams of events and logs being read", registry=self.registry)

        self._step = StepMetrics(self.registry)

    def show(self, jobs: Sequence[Job], latest_step: Mapping[str, JsonValue]) -> None:
        """Set what follows from the jobs and from the metrics of the running one's latest training step."""
        self._step.show(latest_step)
        count = Count(job.state for job in jobs)
        for state in JobState:
            self.jobs.labels(state.value).set(count[state])
        running = next((job for job in jobs if job.state is JobState.RUNNING), None)
        self.policy_version.set(running.policy_version if running else 0)
        self.steps.set(running.steps if running else 0)
