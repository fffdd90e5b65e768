"""The names of a job's keys in Redis (DESIGN §6)."""

import re
from dataclasses import dataclass

JOBS = "gagpo:jobs"
"""Hash: id of a job → its record (`shared.buffer.job_records`)."""

JOBS_ORDER = "gagpo:jobs:order"
"""List: ids of all jobs in the order of their turns."""

JOBS_ACTIVE = "gagpo:jobs:active"
"""The job that the services work for; absent when there is none."""

_JOB = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")


@dataclass(frozen=True, slots=True)
class JobKeys:
    """Every key that belongs to one job."""

    job: str

    def __post_init__(self) -> None:
        if not _JOB.match(self.job):
            raise ValueError(
                f"job = {self.job!r}: an id is 1 to 100 letters, digits, '.', '_' or '-', the first a letter or a digit"
            )

    def _key(self, name: str) -> str:
        return f"gagpo:{self.job}:{name}"

    @property
    def groups(self) -> str:
        """Stream: one entry a group, or a tombstone of a dropped one."""
        return self._key("groups")

    @property
    def seen(self) -> str:
        """Hash: ``<step>:<index>`` → ``<entry id> <bytes>`` of everything in the stream."""
        return self._key("seen")

    @property
    def held_bytes(self) -> str:
        """Integer: bytes of payloads in the stream."""
        return self._key("held_bytes")

    @property
    def frontier(self) -> str:
        """Integer: the first training step that no checkpoint covers yet."""
        return self._key("frontier")

    @property
    def wanted(self) -> str:
        """Integer: the training step that the trainer waits for; its groups are let in whatever the byte bound."""
        return self._key("wanted")

    @property
    def events(self) -> str:
        """Stream of metrics, samples and state changes, trimmed."""
        return self._key("events")

    @property
    def policy_version(self) -> str:
        """Integer: the version that all policy servers hold."""
        return self._key("policy_version")

    @property
    def weights(self) -> str:
        """Hash: version → digest of the weights that the trainer pushes, so that others are told from them."""
        return self._key("weights")

    @property
    def state(self) -> str:
        """The job's state, as `shared.schemas.job.JobState` spells it."""
        return self._key("state")

    @property
    def recipe(self) -> str:
        """The recipe of a submitted job with every default spelled out, as JSON."""
        return self._key("recipe")

    @property
    def leases(self) -> str:
        """Hash: ``<step>:<index>`` → ``<ms when it ends> <holder>`` of every group that is being made."""
        return self._key("leases")

    @property
    def makers(self) -> str:
        """Sorted set: the orchestrators at work on the job, by when (ms) they count as gone."""
        return self._key("makers")

    @property
    def watched(self) -> str:
        """Who came last to watch the job's episodes; expires by itself unless a watcher renews it."""
        return self._key("watched")

    @property
    def turns(self) -> str:
        """Stream of running episodes' turns, trimmed; only while somebody watches, and soon gone afterwards."""
        return self._key("turns")

    @property
    def lasting(self) -> list[str]:
        """All of them but the figures, which expire by themselves; the state first."""
        return [
            self.state,
            self.recipe,
            self.groups,
            self.seen,
            self.held_bytes,
            self.frontier,
            self.wanted,
            self.events,
            self.policy_version,
            self.weights,
            self.leases,
            self.makers,
            self.watched,
            self.turns,
        ]

    def figures(self, step: int) -> str:
        """Hash: group index → its figures, until all groups of the training step are there and somebody sums them."""
        return self._key(f"figures:{step}")
