"""From a workload and unit costs to the time of a training step, what holds it up, and what would help.

With ``max_staleness = 0`` generation and training take turns, so a step takes

    rollout + advantages and log-probs + update + push

and a checkpoint is written while the next step's groups are being made, so it counts where it outlasts them. With
``max_staleness ≥ 1`` on processors of their own the two overlap, and the step takes the longer of both.
"""

from dataclasses import dataclass, replace

from gagpo.plan.costs import MovedBytes, UnitCosts
from gagpo.plan.rollout import RolloutSpeed, Station, simulate_rollout
from gagpo.plan.workload import Workload

LATENCY_S = 0.03
"""Between a push and the first group: the orchestrator looks at the policy's version every 0.05 s, half of that on
average, and as long again for a round trip or two."""

PARALLEL_SHARE = 0.9
"""What a process of several (FSDP2, tensor parallelism) achieves of one alone. An assumption."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What works on a job."""

    gpus: int
    env_cores: int
    policy_servers: int
    training_processes: int
    orchestrators: int = 1
    tensor_parallel: int = 1
    most_running: int = 128
    """Requests that one policy server computes at once: the policy server's own limit, or what its memory holds."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A training step, in seconds."""

    step_s: float
    rollout_s: float
    phases: dict[str, float]
    """Seconds by kind of work, the rollout split by where episodes spend their time. Overlapped ones sum to more."""
    overlapped: bool
    """Whether generation goes on while the trainer trains."""
    rollout: RolloutSpeed

    @property
    def bottleneck(self) -> str:
        """The longest phase on the critical path."""
        training = [name for name in self.phases if name not in tuple(Station)]
        trained_s = sum(self.phases[name] for name in training)
        if self.overlapped:
            names = training if trained_s > self.rollout_s else list(Station)
            return max(names, key=lambda name: self.phases[name])
        return max(self.phases, key=lambda name: self.phases[name])


def predict(work: Workload, costs: UnitCosts, moved: MovedBytes, resources: Resources) -> Prediction:
    """The steady state: no first step's warming up, no evaluation."""
    rollout = simulate_rollout(
        work,
        costs,
        policy_servers=resources.policy_servers,
        env_cores=resources.env_cores,
        orchestrators=resources.orchestrators,
        most_running=resources.most_running,
    )
    training = _training(work, costs, moved.pushed, resources.training_processes)
    rollout_s = rollout.seconds + LATENCY_S
    overlapped = work.max_staleness > 0 and not costs.shared_machine
    checkpoint_s = costs.checkpoint.seconds(moved.saved) / work.checkpoint_every
    hidden_s = rollout_s / work.checkpoint_every
    if not overlapped:
        checkpoint_s = max(0.0, checkpoint_s - hidden_s)
    phases = {**_by_station(rollout, rollout_s), **training, "checkpoint": checkpoint_s}
    trained_s = sum(training.values()) + checkpoint_s
    step_s = max(rollout_s, trained_s) if overlapped else rollout_s + trained_s
    return Prediction(step_s, rollout_s, phases, overlapped, rollout)


def _training(work: Workload, costs: UnitCosts, pushed_bytes: float, processes: int) -> dict[str, float]:
    computed = work.computed_share / speed_up(processes)
    tokens, judged = work.trained_tokens * computed, work.judged_tokens * computed
    forward_passes = int(work.old_logprobs) + int(work.reference)
    judging = costs.training.forward_token_s + work.critic_epochs * costs.training.update_token_s
    critic = {"critic": judged * judging} if work.critic_epochs else {}
    return {
        "log-probs": forward_passes * tokens * costs.training.forward_token_s,
        "update": work.epochs * tokens * costs.training.update_token_s,
        **critic,
        "push": costs.push.seconds(pushed_bytes),
        "other": costs.training.fixed_s,
    }


def speed_up(processes: int) -> float:
    """How much more several processes do than one."""
    return processes * PARALLEL_SHARE if processes > 1 else 1.0


def _by_station(rollout: RolloutSpeed, seconds: float) -> dict[str, float]:
    """The rollout's time, in proportion to where episodes spend theirs."""
    total = sum(rollout.residence.values())
    return {station.value: seconds * spent / total for station, spent in rollout.residence.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """Something that a person could add, or set in the recipe."""

    what: str
    work: Workload
    resources: Resources


def changes(work: Workload, resources: Resources) -> list[Change]:
    """One change each; what is added is taken to bring processors of its own."""

    def added(what: str, more: Resources) -> Change:
        return Change(what, work, more)

    def recipe(what: str, other: Workload) -> Change:
        return Change(what, other, resources)

    cores, orchestrators = 2 * resources.env_cores, resources.orchestrators + 1
    servers, processes = 2 * resources.policy_servers, 2 * resources.training_processes
    found = [
        added(f"{cores} env cores", replace(resources, env_cores=cores)),
        added(f"{orchestrators} orchestrators", replace(resources, orchestrators=orchestrators)),
        added(f"{servers} policy servers", replace(resources, policy_servers=servers)),
        added(f"{processes} training processes", replace(resources, training_processes=processes)),
    ]
    if work.concurrency < work.episodes:
        more = min(work.episodes, 2 * work.concurrency)
        found.append(recipe(f"rollout.concurrency = {more}", replace(work, concurrency=more)))
    if work.max_staleness == 0:
        found.append(recipe("rollout.max_staleness = 1", replace(work, max_staleness=1)))
    return found
