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
from pathlib import Path
from typing import Any

import httpx
import msgspec

from gagpo.redis_server import start_redis
from tests.processes import start_service

TARGET_STEPS_PER_CORE = 3000
TARGET_GROUP_RATIO = 1.3


def cpu_seconds(pid: int) -> float:
    """CPU seconds that a process has used so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Process ids of a process's children."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


class Client:
    """A client that spends as little as it can: one connection, msgspec."""

    def __init__(self, url: str, encoding: str) -> None:
        """``encoding`` is ``json`` or ``msgpack``."""
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

    def open(self, environment: str, split: str, index: int, count: int) -> list[dict[str, Any]]:
        """The sessions of a new group."""
        body = {"environment": environment, "split": split, "index": index, "count": count}
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


def measure_steps(client: Client, given: argparse.Namespace, pids: list[int], redis_pid: int | None) -> float:
    """Print the figures of stepping; steps per CPU second of the server's processes."""
    choose = random.Random(0)
    sessions = [
        s for group in range(given.sessions // 8) for s in client.open(given.environment, given.split, group, 8)
    ]
    opened = given.sessions // 8
    steps, spent_elsewhere = 0, 0.0
    started, cpu = time.perf_counter(), {pid: cpu_seconds(pid) for pid in pids}
    redis_cpu = cpu_seconds(redis_pid) if redis_pid else 0.0
    while time.perf_counter() - started < given.seconds:
        batch = [
            {
                "session_id": s["session_id"],
                "action": choose.choice(s["admissible_actions"]),
                "step_index": s["step_index"],
            }
            for s in sessions
        ]
        sessions = client.post("/v1/steps", {"steps": batch})["results"]
        steps += len(sessions)
        for position, session in enumerate(sessions):
            if session["terminated"] or session["truncated"]:
                client.delete(session["session_id"])
                sessions[position] = client.open(given.environment, given.split, opened % given.tasks, 1)[0]
                opened += 1
    wall = time.perf_counter() - started - spent_elsewhere
    used = {pid: cpu_seconds(pid) - cpu[pid] for pid in pids}
    per_core = steps / sum(used.values())
    print(f"stepping {given.sessions} sessions of {given.environment}, {given.encoding}, {given.workers} workers:")
    print(f"  {steps} steps in {wall:.1f} s: {steps / wall:,.0f} steps/s, the client on the same machine")
    print(
        f"  CPU of the server {used[pids[0]]:.2f} s, of its workers {sum(used.values()) - used[pids[0]]:.2f} s", end=""
    )
    print(f", of Redis {cpu_seconds(redis_pid) - redis_cpu:.2f} s" if redis_pid else "")
    print(f"  {opened - given.sessions // 8} episodes were opened anew meanwhile")
    verdict = "reached" if per_core >= TARGET_STEPS_PER_CORE else "MISSED"
    print(f"  {per_core:,.0f} steps/s per core; target {TARGET_STEPS_PER_CORE:,}: {verdict}")
    return per_core


def measure_opening(client: Client, given: argparse.Namespace) -> float:
    """Print what opening costs; the ratio of a group of 8 to one session."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for index in range(given.opens):
        for shift, count in enumerate((1, 8)):
            task = (2 * index + shift) % given.tasks  # a task of its own for each, so that the first time is cold
            for state in ("not yet loaded", "already loaded"):
                before = time.perf_counter()
                sessions = client.open(given.environment, given.split, task, count)
                seconds.setdefault((state, count), []).append(time.perf_counter() - before)
                for session in sessions:
                    client.delete(session["session_id"])
    ratio = 0.0
    for state in ("not yet loaded", "already loaded"):
        one, eight = (statistics.median(seconds[state, count]) for count in (1, 8))
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
    parser.add_argument("--memory", action="store_true", help="without Redis: the journal in memory")
    given = parser.parse_args()
    with running_server(given) as (url, pid, redis_pid):
        client = Client(url, given.encoding)
        sizes = client._http.get("/v1/environments", headers={"accept": "application/json"}).json()["environments"]
        given.tasks = min(given.tasks, sizes[0]["splits"][given.split])
        measure_opening(client, given)
        measure_steps(client, given, [pid, *children(pid)], redis_pid)


if __name__ == "__main__":
    main()
