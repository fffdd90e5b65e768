"""How fast WebShop steps: in process on what the original was recorded doing, and over HTTP.

    python -m benchmarks.webshop

In process, the recorded episodes are played again, searches included, and every step makes the whole observation: the
rich text, the admissible actions, info and the state key. Over HTTP a real server is stepped by ``POST /v1/steps``, as
in `benchmarks.env_server`; steps/s per core is steps per CPU second of the server and its workers.
"""

import argparse
import json
import lzma
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.env_server import Client, Meter, Used, running_server
from services.env_server.environments.webshop.catalogue.open import open_path
from services.env_server.environments.webshop.environment import WebshopFamily
from shared.schemas.environment import StateKeyKind
from tests.data_paths import DATA_ROOT

ORIGINAL_STEPS_PER_S = 22
"""The original in text mode on two slow cores (``GOLDENS.md``)."""
TARGET_RATIO = 200
TARGET_STEPS_PER_CORE = 1500


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded episode."""

    task_id: str
    actions: Sequence[str | None]
    """None where the episode was started anew."""


def recorded_episodes(data: Path) -> list[Recorded]:
    """What the original was recorded doing."""
    episodes = []
    with lzma.open(data / "goldens" / "episode_goldens.jsonl.xz") as lines:
        for episode in map(json.loads, lines):
            actions = [step["action"] for step in episode["steps"]]
            episodes.append(Recorded(f"{episode['goal_set']}-{episode['goal_idx']}", actions))
    return episodes


def play(family: WebshopFamily, episodes: Sequence[Recorded]) -> tuple[int, float]:
    """Play all episodes; steps and CPU seconds, the openings included."""
    steps, started = 0, time.process_time()
    for episode in episodes:
        environment = family.open(episode.task_id, {})
        environment.reset()
        for action in episode.actions:
            if action is None:
                environment.reset()
                continue
            environment.step(action)
            environment.state_key(StateKeyKind.OBSERVATION)
            steps += 1
    return steps, time.process_time() - started


def measure_in_process(data: Path, repeats: int) -> None:
    """Print steps a second: of a shop just opened, of one that makes every search anew, and of one that remembers."""
    episodes = recorded_episodes(data)
    cold = [play(WebshopFamily(open_path(data)), episodes) for _ in range(repeats)]
    searching, remembering = WebshopFamily(open_path(data), searches_kept=0), WebshopFamily(open_path(data))
    for family in (searching, remembering):
        play(family, episodes)
    figures = {
        "cold: a shop just opened, each product and search met for the first time": cold,
        "warm, but every search made anew": [play(searching, episodes) for _ in range(repeats)],
        "warm: products and searches remembered": [play(remembering, episodes) for _ in range(repeats)],
    }
    print(f"in process, {len(episodes)} recorded episodes, {cold[0][0]} steps, medians of {repeats} times:")
    for what, times in figures.items():
        per_second = statistics.median(steps / seconds for steps, seconds in times)
        ratio = per_second / ORIGINAL_STEPS_PER_S
        verdict = "reached" if ratio >= TARGET_RATIO else "MISSED"
        print(f"  {what}: {per_second:,.0f} steps/s, {ratio:,.0f} times the original's; {TARGET_RATIO}: {verdict}")


class Shoppers:
    """Sessions that search for what their goal says, look at products, and buy one; each anew when it is over."""

    def __init__(self, client: Client, split: str, tasks: int, count: int) -> None:
        """Opens ``count`` sessions."""
        self._client, self._split, self._tasks = client, split, tasks
        self._choose = random.Random(0)
        self._opened = 0
        self._sessions = [self._open() for _ in range(count)]

    def renew(self) -> None:
        """Open a session wherever one is over."""
        for place, session in enumerate(self._sessions):
            if session.get("terminated") or session.get("truncated"):
                self._client.delete(session["session_id"])
                self._sessions[place] = self._open()

    def step(self) -> tuple[int, int]:
        """One batch of all that still play; how many steps, and characters of their pages."""
        places = [n for n, s in enumerate(self._sessions) if not (s.get("terminated") or s.get("truncated"))]
        batch = [
            {"session_id": s["session_id"], "action": self._action(s), "step_index": s["step_index"]}
            for s in (self._sessions[place] for place in places)
        ]
        results = self._client.post("/v1/steps", {"steps": batch})["results"]
        for place, result in zip(places, results, strict=True):
            self._sessions[place] = result
        return len(batch), sum(len(result["observation"]) for result in results)

    def _open(self) -> dict[str, Any]:
        self._opened += 1
        (session,) = self._client.open("webshop", self._split, self._opened % self._tasks, 1)
        return session

    def _action(self, session: dict[str, Any]) -> str:
        if session["info"]["has_search_bar"]:
            words = session["info"]["goal"].split(",")[0].removeprefix("Find me ").split()
            return f"search[{' '.join(self._choose.sample(words, min(len(words), 4)))}]"
        onward = [action for action in session["admissible_actions"] if action != "click[back to search]"]
        return self._choose.choice(onward)


def measure_http(given: argparse.Namespace) -> None:
    """Print steps a second of a real server's processes."""
    with running_server(given) as (url, pid, redis_pid):
        client, meter, used = Client(url, given.encoding), Meter(pid, redis_pid), Used()
        shoppers = Shoppers(client, given.split, given.tasks, given.sessions)
        steps, characters, seconds = 0, 0, 0.0
        started = time.perf_counter()
        while time.perf_counter() - started < given.seconds:
            shoppers.renew()
            meter.lap(Used())
            before = time.perf_counter()
            for _ in range(4):
                stepped, shown = shoppers.step()
                steps, characters = steps + stepped, characters + shown
            seconds += time.perf_counter() - before
            meter.lap(used)
    print(f"over HTTP, {given.sessions} sessions, text_rich, {given.encoding}, {given.workers} workers:")
    print(
        f"  {steps} steps in {seconds:.1f} s: {steps / seconds:,.0f} steps/s, the client on the same machine;", end=""
    )
    print(f" {characters / steps:,.0f} characters a page")
    print(f"  CPU of the server {used.server:.2f} s, of its workers {used.workers:.2f} s, of Redis {used.redis:.2f} s")
    per_core = steps / used.total
    verdict = "reached" if per_core >= TARGET_STEPS_PER_CORE else "MISSED"
    print(f"  {per_core:,.0f} steps/s per core; target {TARGET_STEPS_PER_CORE:,}: {verdict}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA_ROOT / "webshop", help="the recorded shop")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--split", default="synthetic_train")
    parser.add_argument("--tasks", type=int, default=500, help="how many tasks of the split are used")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--encoding", choices=["json", "msgpack"], default="msgpack")
    parser.add_argument("--memory", action="store_true", help="without Redis: the journal in memory")
    parser.set_defaults(environment="webshop")
    given = parser.parse_args()
    os.environ["WEBSHOP_DATA"] = str(given.data)  # the server inherits it
    measure_in_process(given.data, given.repeats)
    measure_http(given)


if __name__ == "__main__":
    main()
