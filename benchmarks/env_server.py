"""How fast the env server steps over HTTP, and what a group costs to open.

    python -m benchmarks.env_server --environment alfworld

Starts a real server and a real Redis, steps 64 sessions by ``POST /v1/steps`` with random admissible actions, and
counts the CPU seconds of the server's processes: steps/s per core is steps per CPU second, the client not counted.
"""

import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from gagpo.redis_server import start_redis
from tests.processes import start_service

TARGET_STEPS_PER_CORE = 3000
TARGET_GROUP_RATIO = 1.3
GROUP = 8


def cpu_seconds(pid: int) -> float:
    """CPU seconds that all threads of a process have used so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def children(pid: int) -> list[int]:
    """Process ids of a process's children."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


class Client:
    """A client that spends as little as it can: one connection, msgspec."""

    def __init__(self, url: str, encoding: str, true_state: bool = False) -> None:
        """``encoding`` is ``json`` or ``msgpack``; ``true_state`` is asked for in every session."""
        self._true_state = true_state
        kind = f"application/{encoding}"
        self._http = httpx.Client(base_url=url, headers={"accept": kind, "content-type": kind}, timeout=60.0)
        self._encode = msgspec.json.encode if encoding == "json" else msgspec.msgpack.encode
        self._decode = msgspec.json.decode if encoding == "json" else msgspec.msgpack.decode

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The decoded answer; raises for an error status."""
        response = self._http.post(path, content=self._encode(body))
        response.raise_for_status()
        answer: dict[str, Any] = self._decode(response.content)
        return answer

    def open(
        self, environment: str, split: str, index: int, count: int, options: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The sessions of a new group."""
        body = {
            "environment": environment,
            "split": split,
            "index": index,
            "count": count,
            "true_state": self._true_state,
            "options": options or {},
        }
        sessions: list[dict[str, Any]] = self.post("/v1/sessions", body)["sessions"]
        return sessions

    def delete(self, session_id: str) -> None:
        """Forget a session."""
        self._http.delete(f"/v1/sessions/{session_id}").raise_for_status()


@contextmanager
def running_server(given: argparse.Namespace) -> Iterator[tuple[str, int, int | None]]:
    """URL and process id of a server, and the id of its Redis."""
    with ExitStack() as stack:
        variables = {"GAGPO_ENV_SERVE": f'["{given.environment}"]', "GAGPO_ENV_WORKERS": str(given.workers)}
        if given.environment == "maze":
            variables["GAGPO_ENV_ENVIRONMENTS"] = '{"maze": "tests.environments.maze:MazeFamily"}'
        redis_pid = None
        if not given.memory:
            redis = stack.enter_context(start_redis(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            variables["REDIS_URL"], redis_pid = redis.url, redis.pid
        service = stack.enter_context(start_service("services.env_server", variables, deadline_s=120))
        yield service.url, service.pid, redis_pid


@dataclass(slots=True)
class Used:
    """CPU seconds of the server, its workers and its Redis."""

    server: float = 0.0
    workers: float = 0.0
    redis: float = 0.0

    @property
    def total(self) -> float:
        """Of the server and its workers: Redis is another's process."""
        return self.server + self.workers


class Meter:
    """Says what was used since it was last asked."""

    def __init__(self, server: int, redis: int | None) -> None:
        """Process ids; the server's children are its workers."""
        self._server, self._workers, self._redis = server, children(server), redis
        self._last = self._now()

    def lap(self, onto: Used) -> None:
        """Add what was used since the last lap."""
        now = self._now()
        onto.server += now.server - self._last.server
        onto.workers += now.workers - self._last.workers
        onto.redis += now.redis - self._last.redis
        self._last = now

    def _now(self) -> Used:
        redis = cpu_seconds(self._redis) if self._redis is not None else 0.0
        return Used(cpu_seconds(self._server), sum(map(cpu_seconds, self._workers)), redis)


class Groups:
    """Groups of 8 that play random admissible actions; one whose episodes are all over gives way to a new task's."""

    def __init__(self, client: Client, given: argparse.Namespace) -> None:
        """Nothing is open yet."""
        self._client, self._given = client, given
        self._choose = random.Random(0)
        self._groups: list[list[dict[str, Any]]] = [[] for _ in range(given.sessions // GROUP)]
        self._next = 0

    def renew(self) -> int:
        """Open a group wherever one is over; how many."""
        opened = 0
        for position, group in enumerate(self._groups):
            if all(session.get("terminated") or session.get("truncated") for session in group):
                for session in group:
                    self._client.delete(session["session_id"])
                given = self._given
                self._groups[position] = self._client.open(given.environment, given.split, self._next, GROUP)
                self._next = (self._next + 1) % given.tasks
                opened += 1
        return opened

    def step(self) -> int:
        """One batch of all that still play; how many steps."""
        places = [
            (group, number)
            for group in self._groups
            for number, session in enumerate(group)
            if not (session.get("terminated") or session.get("truncated"))
        ]
        batch = []
        for group, number in places:
            session = group[number]
            action = self._choose.choice(session["admissible_actions"])
            batch.append({"session_id": session["session_id"], "action": action, "step_index": session["step_index"]})
        results = self._client.post("/v1/steps", {"steps": batch})["results"]
        for (group, number), result in zip(places, results, strict=True):
            group[number] = result
        return len(batch)


def measure_steps(client: Client, given: argparse.Namespace, meter: Meter) -> float:
    """Print the figures of stepping; steps per CPU second of the server's processes."""
    groups = Groups(client, given)
    opening, stepping = Used(), Used()
    steps, opened, seconds = 0, 0, 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < given.seconds:
        meter.lap(Used())
        opened += groups.renew()
        meter.lap(opening)
        before = time.perf_counter()
        for _ in range(10):
            steps += groups.step()
        seconds += time.perf_counter() - before
        meter.lap(stepping)
    per_core = steps / stepping.total
    print(f"stepping {given.sessions} sessions of {given.environment}, {given.encoding}, {given.workers} workers:")
    print(f"  {steps} steps in {seconds:.1f} s: {steps / seconds:,.0f} steps/s, the client on the same machine")
    print(f"  CPU of the server {stepping.server:.2f} s, of its workers {stepping.workers:.2f} s", end="")
    print(f", of Redis {stepping.redis:.2f} s")
    print(f"  {opened} groups were opened meanwhile: {opening.total:.2f} s of CPU, not counted above")
    verdict = "reached" if per_core >= TARGET_STEPS_PER_CORE else "MISSED"
    print(f"  {per_core:,.0f} steps/s per core; target {TARGET_STEPS_PER_CORE:,}: {verdict}")
    print(f"  {steps / (stepping.total + opening.total):,.0f} steps/s per core with the openings counted")
    return per_core


def measure_stock(client: Client, given: argparse.Namespace, meter: Meter, native_per_core: float) -> None:
    """Print the same for stock TextWorld behind the same API."""
    opening, stepping = Used(), Used()
    choose = random.Random(0)
    meter.lap(Used())
    (session,) = client.open(given.environment, given.split, 0, 1, {"engine": "textworld"})
    meter.lap(opening)
    for _ in range(given.stock_steps):
        action = choose.choice(session["admissible_actions"])
        step = {"session_id": session["session_id"], "action": action, "step_index": session["step_index"]}
        (session,) = client.post("/v1/steps", {"steps": [step]})["results"]
    meter.lap(stepping)
    per_core = given.stock_steps / stepping.total
    print(
        f"stock TextWorld behind the same API: {per_core:,.1f} steps/s per core; opening {opening.total:.1f} s of CPU"
    )
    print(f"  the native engine steps {native_per_core / per_core:,.0f} times as fast")


def measure_opening(client: Client, given: argparse.Namespace) -> float:
    """Print what opening costs; the ratio of a group of 8 to one session."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for index in range(given.opens):
        for shift, count in enumerate((1, GROUP)):
            task = (2 * index + shift) % given.tasks  # a task of its own for each, so that the first time is cold
            for state in ("not yet loaded", "already loaded"):
                before = time.perf_counter()
                sessions = client.open(given.environment, given.split, task, count)
                seconds.setdefault((state, count), []).append(time.perf_counter() - before)
                for session in sessions:
                    client.delete(session["session_id"])
    ratio = 0.0
    for state in ("not yet loaded", "already loaded"):
        one, eight = (statistics.median(seconds[state, count]) for count in (1, GROUP))
        ratio = eight / one
        verdict = "reached" if ratio <= TARGET_GROUP_RATIO else "MISSED"
        print(f"opening a task {state}: one session {one * 1e3:.2f} ms, a group of 8 {eight * 1e3:.2f} ms", end="")
        print(f" (medians of {given.opens}); ratio {ratio:.2f}; target {TARGET_GROUP_RATIO}: {verdict}")
    return ratio


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="alfworld")
    parser.add_argument("--split", default="train")
    parser.add_argument("--tasks", type=int, default=500, help="how many tasks of the split are used at most")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--opens", type=int, default=60)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--encoding", choices=["json", "msgpack"], default="msgpack")
    parser.add_argument("--true-state", action="store_true", help="ask for the key of the true state as well")
    parser.add_argument("--stock-steps", type=int, default=20, help="steps of stock TextWorld; 0: none")
    parser.add_argument("--memory", action="store_true", help="without Redis: the journal in memory")
    given = parser.parse_args()
    with running_server(given) as (url, pid, redis_pid):
        client = Client(url, given.encoding, given.true_state)
        sizes = client._http.get("/v1/environments", headers={"accept": "application/json"}).json()["environments"]
        given.tasks = min(given.tasks, sizes[0]["splits"][given.split])
        measure_opening(client, given)
        meter = Meter(pid, redis_pid)
        per_core = measure_steps(client, given, meter)
        if given.environment == "alfworld" and given.stock_steps:
            measure_stock(client, given, meter, per_core)


if __name__ == "__main__":
    main()
