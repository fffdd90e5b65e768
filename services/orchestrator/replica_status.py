"""What is known of each env and policy server, as ``GET /v1/status`` tells it.

Nothing is asked for the sake of the answer: it is what the work has shown, and what looks beside the work have found.
"""

from services.orchestrator.replicas import Replica
from services.orchestrator.setup import Players, ServerSets
from shared.schemas.environment import Message


class ReplicaStatus(Message):
    """One server of several alike."""

    url: str
    reachable: bool | None
    """Whether it could be reached when last tried; null where it was not tried yet."""
    failures: int
    """How often it could not be reached."""
    in_flight: int
    """Requests that it has not answered yet."""


class EnvReplicaStatus(ReplicaStatus):
    """An env server."""

    same_tasks: bool | None
    """Whether it has the same tasks as the others; one that has not is not used. Null where that is not known."""


class PolicyReplicaStatus(ReplicaStatus):
    """A policy server."""

    version: int | None
    """Of its weights when last seen; null where that is not known."""
    of_job: bool | None
    """Whether they are weights of the job at work; a server with others is not used until it is given the job's."""
    lagging: bool | None
    """Whether they are older than the job's ``policy_version``; null where they are not the job's."""


def env_replicas(sets: ServerSets, players: Players | None) -> list[EnvReplicaStatus]:
    """Every env server. ``players`` are those of the job at work."""
    return [
        EnvReplicaStatus(
            url=replica.url,
            reachable=replica.reachable,
            failures=replica.failures,
            in_flight=replica.in_flight,
            same_tasks=None if players is None else players.environments.has_same_tasks(replica),
        )
        for replica in sets.environments.replicas
    ]


def policy_replicas(sets: ServerSets, players: Players | None, newest: int | None) -> list[PolicyReplicaStatus]:
    """Every policy server; ``newest`` is the job's policy version."""
    return [_policy_replica(replica, players, newest) for replica in sets.policy.replicas]


def _policy_replica(replica: Replica, players: Players | None, newest: int | None) -> PolicyReplicaStatus:
    held = None if players is None else players.policy.held(replica, newest or 0)
    return PolicyReplicaStatus(
        url=replica.url,
        reachable=replica.reachable,
        failures=replica.failures,
        in_flight=replica.in_flight,
        version=None if held is None else held.version,
        of_job=None if held is None else held.of_job,
        lagging=None if held is None or not held.of_job or newest is None else held.version < newest,
    )
