"""A discrete-event simulation of the rollout: episodes go round between orchestrator, policy servers and env servers.

Episodes wait for one of ``concurrency`` slots. Each turn takes an orchestrator (one core each, first come first
served), then a policy server, then a core of the env servers. A policy server works as vLLM does, by continuous
batching: each iteration of its engine takes

    iteration_s + decode_s × requests that get a token + prefill_s × prompt tokens computed

and gives every running request one token; waiting prompts are computed as far as the iteration's token budget reaches.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from gagpo.plan.costs import GenerationCosts, UnitCosts
from gagpo.plan.workload import Workload

MOST_BATCHED_TOKENS = 4096
"""The policy server's default for the tokens of one iteration."""

Then = Callable[[], None]


class Station(StrEnum):
    """Where an episode can be."""

    ORCHESTRATOR = "orchestrator"
    GENERATION = "generation"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class RolloutSpeed:
    """What comes of it."""

    seconds: float
    """From the first group's start to the last one's end."""
    utilisation: dict[Station, float]
    """Share of that time in which the station's units were busy, mean over them."""
    residence: dict[Station, float]
    """Seconds that all episodes together spent there, waiting included."""


def simulate_rollout(
    work: Workload, costs: UnitCosts, *, policy_servers: int, env_cores: int, orchestrators: int, most_running: int
) -> RolloutSpeed:
    """Play one training step's episodes. ``most_running`` bounds the requests that one engine computes at once."""
    clock = _Clock()
    rng = random.Random(0)
    orchestrator = _Cores(clock, orchestrators)
    environment = _Cores(clock, env_cores)
    engines = [_Engine(clock, costs.generation, most_running) for _ in range(policy_servers)]
    residence = dict.fromkeys(Station, 0.0)
    waiting = deque(work.episode_turns(rng))
    opening_s = costs.env_open_s / work.group_size

    def at(station: Station, then: Then) -> Then:
        """``then``, with the time from now until it is called put down to the station."""
        came = clock.now

        def called() -> None:
            residence[station] += clock.now - came
            then()

        return called

    def next_episode() -> None:
        if waiting:
            turns = waiting.popleft()
            environment.work(opening_s, at(Station.ENVIRONMENT, lambda: play(turns)))

    def play(turns_left: int) -> None:
        if not turns_left:
            next_episode()
            return
        orchestrator.work(costs.turn_s, at(Station.ORCHESTRATOR, lambda: ask(turns_left)))

    def ask(turns_left: int) -> None:
        tokens = max(1, round(work.answer_tokens * rng.uniform(0.5, 1.5)))
        engine = min(engines, key=lambda one: one.held)
        request = _Request(work.computed_prompt_tokens, tokens, at(Station.GENERATION, lambda: step(turns_left)))
        engine.add(request)

    def step(turns_left: int) -> None:
        environment.work(costs.env_step_s, at(Station.ENVIRONMENT, lambda: play(turns_left - 1)))

    for _ in range(min(work.concurrency, work.episodes)):
        next_episode()
    clock.run()
    busy = {
        Station.ORCHESTRATOR: orchestrator.busy / orchestrators,
        Station.GENERATION: sum(engine.busy for engine in engines) / policy_servers,
        Station.ENVIRONMENT: environment.busy / env_cores,
    }
    return RolloutSpeed(clock.now, {station: value / clock.now for station, value in busy.items()}, residence)


class _Clock:
    """Simulated time: calls what is due, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Then]] = []
        self._numbers = itertools.count()  # equal times keep their order

    def after(self, seconds: float, then: Then) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), then))

    def run(self) -> None:
        while self._due:
            self.now, _, then = heapq.heappop(self._due)
            then()


class _Cores:
    """Equal cores before one queue, first come first served."""

    def __init__(self, clock: _Clock, count: int) -> None:
        self._clock = clock
        self._free_at = [0.0] * count
        self.busy = 0.0

    def work(self, seconds: float, then: Then) -> None:
        """Call ``then`` once a core had time for it."""
        start = max(self._clock.now, heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, start + seconds)
        self.busy += seconds
        self._clock.after(start + seconds - self._clock.now, then)


@dataclass(slots=True)
class _Request:
    prompt_left: float
    tokens: int
    then: Then


@dataclass(slots=True)
class _Engine:
    """One policy server's engine, with continuous batching and chunked prompts."""

    clock: _Clock
    costs: GenerationCosts
    most_running: int
    busy: float = 0.0
    held: int = 0
    """Requests that wait or run."""
    _waiting: deque[_Request] = field(default_factory=deque)
    _running: list[tuple[int, int, _Request]] = field(default_factory=list)
    """(iteration after which it ends, order, request), a heap."""
    _iteration: int = 0
    _order: int = 0
    _works: bool = False

    def add(self, request: _Request) -> None:
        """Take a request; its ``then`` is called with its last token."""
        self.held += 1
        self._waiting.append(request)
        if not self._works:
            self._works = True
            self.clock.after(0.0, self._iterate)  # whatever comes at the same moment goes along

    def _iterate(self) -> None:
        prompt_tokens = self._admit(MOST_BATCHED_TOKENS - len(self._running))
        costs = self.costs
        seconds = costs.iteration_s + costs.decode_s * len(self._running) + costs.prefill_s * prompt_tokens
        self.busy += seconds
        self.clock.after(seconds, self._finish)

    def _admit(self, budget: float) -> float:
        """Compute waiting prompts, in order, as far as the budget reaches; how many tokens that were."""
        left = budget
        while self._waiting and left > 0 and len(self._running) < self.most_running:
            request = self._waiting[0]
            computed = min(left, request.prompt_left)
            request.prompt_left -= computed
            left -= computed
            if request.prompt_left > 0:
                break
            self._waiting.popleft()
            self._order += 1
            heapq.heappush(self._running, (self._iteration + request.tokens, self._order, request))
        return budget - left

    def _finish(self) -> None:
        self._iteration += 1
        while self._running and self._running[0][0] <= self._iteration:
            _, _, request = heapq.heappop(self._running)
            self.held -= 1
            request.then()
        self._works = bool(self._running or self._waiting)
        if self._works:
            self._iterate()
