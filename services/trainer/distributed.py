"""Several training processes that act as one: who they are, and the few facts that they tell each other.

``torchrun`` starts them and gives each its rank. Rank 0 leads: it alone talks to Redis and the policy servers, and
tells the others what to do next. When one process dies, torchrun ends all; the job goes on from its last checkpoint.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

COLLECTIVE_DEADLINE = timedelta(minutes=10)
"""Longest that a process waits for the others within an update; beyond it something hangs."""

WAIT_MARGIN_S = 600.0
"""What rank 0 may take between two orders beyond what it waits for by its own deadlines, for a checkpoint say."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """This process among the training processes of its job. The default is a process by itself."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where this process computes."""
    mesh: DeviceMesh | None = None
    """The devices over which models are sharded; None where they stay whole."""
    control: dist.ProcessGroup | None = None
    """Carries orders and other small facts, over gloo: waiting for one may take as long as a step's episodes."""

    def tell(self, order: object) -> None:
        """Give an order to all other processes, which `hear` it. Does nothing but on rank 0 of several."""
        if self.rank == 0 and self.size > 1:
            dist.broadcast_object_list([order], src=0, group=self.control)

    def hear(self) -> object:
        """Wait for rank 0's next order."""
        heard: list[object] = [None]
        dist.broadcast_object_list(heard, src=0, group=self.control)
        return heard[0]

    def highest(self, number: int) -> int:
        """The highest of all processes' numbers; each has to ask at the same place."""
        if self.size == 1:
            return number
        highest = torch.tensor(number)
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.control)
        return int(highest)

    def add(self, values: Tensor) -> Tensor:
        """Replace ``values``, which are on `device`, by their sum over all processes, and return them."""
        if self.size > 1:
            dist.all_reduce(values)
        return values


ALONE = World()
"""A process by itself on a CPU."""


@contextmanager
def join_world(wait_s: float, *, sharded: bool) -> Iterator[World]:
    """The world that torchrun's variables describe; without them, this process alone.

    ``wait_s`` bounds what rank 0 waits for between two orders. ``sharded`` asks for a mesh even for one process.
    """
    size, device = int(os.environ.get("WORLD_SIZE", "1")), _device()
    if size == 1 and not sharded:
        yield World(device=device)
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if size == 1:
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=COLLECTIVE_DEADLINE)
    else:
        dist.init_process_group(backend, timeout=COLLECTIVE_DEADLINE)
    try:
        control = dist.new_group(backend="gloo", timeout=timedelta(seconds=wait_s + WAIT_MARGIN_S))
        yield World(dist.get_rank(), size, device, init_device_mesh(device.type, (size,)), control)
    finally:
        dist.destroy_process_group()


def is_lost_peer(error: BaseException) -> bool:
    """Whether another process ended or hangs: a new start may do then, unlike after a fault of one's own."""
    # gloo's faults have no type of their own.
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def set_threads(asked: int) -> None:
    """Let torch use ``asked`` threads; for 0, the processes of this machine share its cores."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if asked:
        torch.set_num_threads(asked)
    elif processes > 1:  # torchrun would give each a single one
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // processes))


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
