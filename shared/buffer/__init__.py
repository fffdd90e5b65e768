"""What the orchestrator and the trainer exchange through Redis: groups, events, policy version, state of the job."""

from shared.buffer.codec import CodecError, decode_group, encode_group
from shared.buffer.connection import EvictionPolicyError, check_eviction_policy, check_redis, connect, connect_async
from shared.buffer.events import AsyncEventReader, AsyncEventWriter, Event, EventReader, EventWriter
from shared.buffer.groups import BufferState, BufferTimeoutError, GroupReader, GroupWriter, ReleasedStepError
from shared.buffer.job import AsyncJobChannel, JobChannel
from shared.buffer.job_records import IllegalTransitionError, JobConflictError, JobNotOverError, UnknownJobError
from shared.buffer.jobs import AsyncJobStore, JobStore
from shared.buffer.keys import JobKeys
from shared.buffer.leases import GroupLeases, GroupPlace
from shared.buffer.live import Told, TurnReader, TurnWriter

__all__ = [
    "AsyncEventReader",
    "AsyncEventWriter",
    "AsyncJobChannel",
    "AsyncJobStore",
    "BufferState",
    "BufferTimeoutError",
    "CodecError",
    "Event",
    "EventReader",
    "EventWriter",
    "EvictionPolicyError",
    "GroupLeases",
    "GroupPlace",
    "GroupReader",
    "GroupWriter",
    "IllegalTransitionError",
    "JobChannel",
    "JobConflictError",
    "JobKeys",
    "JobNotOverError",
    "JobStore",
    "ReleasedStepError",
    "Told",
    "TurnReader",
    "TurnWriter",
    "UnknownJobError",
    "check_eviction_policy",
    "check_redis",
    "connect",
    "connect_async",
    "decode_group",
    "encode_group",
]
