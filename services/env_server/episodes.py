"""The live episodes of one worker: opened, cloned into groups, stepped, rebuilt by replay and dropped."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from services.env_server.environments.base import (
    DrawsTasks,
    Environment,
    EnvironmentFamily,
    InvalidOptionError,
    Observation,
    StepOutcome,
    UnknownSplitError,
    UnknownTaskError,
)
from services.env_server.worker_protocol import (
    LOST,
    Birth,
    DrawTask,
    Encoding,
    Fault,
    Item,
    ObservationFragment,
    Outcome,
    StepFragment,
)
from shared.schemas.environment import StateKeyKind

logger = logging.getLogger(__name__)

EPISODE_OVER = "The episode is over"


class ProgressReport(Protocol):
    """Where a table reports what it is at, so that a watcher can tell a step that hangs."""

    def item(self, index: int) -> None:
        """An item of a call begins."""
        ...

    def opening(self) -> None:
        """A task is being loaded or reset."""
        ...

    def stepping(self) -> None:
        """One step is being taken."""
        ...


@dataclass(slots=True)
class Episode:
    """One session's live state."""

    environment: Environment
    birth: Birth
    kind: StateKeyKind
    step_index: int = 0
    terminated: bool = False
    truncated: bool = False


_encode_json = msgspec.json.Encoder().encode
_encode_msgpack = msgspec.msgpack.Encoder().encode


def _encoder(encoding: Encoding) -> Callable[[ObservationFragment], bytes]:
    return _encode_json if encoding == "json" else _encode_msgpack


class EpisodeTable:
    """All live episodes of a worker. A failed item never harms another session."""

    def __init__(self, families: Mapping[str, EnvironmentFamily], progress: ProgressReport) -> None:
        """``progress`` is told before anything that may take long."""
        self._families = families
        self._progress = progress
        self._episodes: dict[str, Episode] = {}

    def open_group(self, session_ids: Sequence[str], birth: Birth, encoding: Encoding) -> list[Outcome]:
        """Load the task once, and give each session a clone of it."""
        encode = _encoder(encoding)
        try:
            environment, observation = self._load(birth)
            kind = StateKeyKind(birth.state_key)
            fragment = _observation_fragment(session_ids[0], Episode(environment, birth, kind), observation)
            outcomes = []
            for session_id in session_ids:
                last = session_id is session_ids[-1]  # the loaded one itself serves the last session
                self._episodes[session_id] = Episode(environment if last else environment.clone(), birth, kind)
                fragment.session_id = session_id
                outcomes.append(Outcome(encode(fragment)))
        except Exception as error:
            self.drop(session_ids)
            return [Outcome(fault=_fault(error, f"opening {birth.task_id}"))] * len(session_ids)
        return outcomes

    def draw(self, wanted: DrawTask) -> Outcome:
        """The id of the task that the environment draws."""
        self._progress.opening()
        family = self._families[wanted.environment]
        assert isinstance(family, DrawsTasks)  # the catalogue says so
        try:
            return Outcome(family.draw(wanted.split, wanted.seed, wanted.options).encode())
        except Exception as error:
            return Outcome(fault=_fault(error, f"drawing a task of {wanted.split} with seed {wanted.seed}"))

    def run(self, items: Sequence[Item], encoding: Encoding) -> list[Outcome]:
        """Work through items in order; one outcome each."""
        encode = _encoder(encoding)
        outcomes = []
        for index, item in enumerate(items):
            self._progress.item(index)
            try:
                outcomes.append(self._run_one(item, encode))
            except Exception as error:
                # What the environment did before it failed is unknown, so the episode is not to be trusted.
                self._episodes.pop(item.session_id, None)
                outcomes.append(Outcome(fault=_fault(error, f"session {item.session_id}, step {item.step_index}")))
        return outcomes

    def drop(self, session_ids: Sequence[str]) -> None:
        """Forget sessions; unknown ones are no error."""
        for session_id in session_ids:
            self._episodes.pop(session_id, None)

    def _run_one(self, item: Item, encode: Callable[[ObservationFragment], bytes]) -> Outcome:
        if item.birth is not None:
            episode, fragment = self._replay(item.session_id, item.birth, item.past)
            if item.keep:
                self._episodes[item.session_id] = episode
            if item.action is None:
                return Outcome(encode(fragment), episode.terminated, episode.truncated)
        else:
            live = self._episodes.get(item.session_id)
            if live is None:
                return Outcome(fault=Fault(LOST, "Not live here", 500, item.session_id))
            episode = live
        if episode.step_index != item.step_index or item.action is None:
            return Outcome(fault=Fault(LOST, "At another step", 500, item.session_id))
        if episode.terminated or episode.truncated:
            return Outcome(
                terminated=episode.terminated, truncated=episode.truncated, fault=episode_over(episode.step_index)
            )
        fragment = self._step(item.session_id, episode, item.action)
        return Outcome(encode(fragment), episode.terminated, episode.truncated)

    def _load(self, birth: Birth) -> tuple[Environment, Observation]:
        self._progress.opening()
        environment = self._families[birth.environment].open(birth.task_id, birth.options)
        return environment, environment.reset()

    def _replay(self, session_id: str, birth: Birth, past: Sequence[str]) -> tuple[Episode, ObservationFragment]:
        environment, observation = self._load(birth)
        episode = Episode(environment, birth, StateKeyKind(birth.state_key))
        fragment = _observation_fragment(session_id, episode, observation)
        for action in past:
            fragment = self._step(session_id, episode, action)
        return episode, fragment

    def _step(self, session_id: str, episode: Episode, action: str) -> ObservationFragment:
        self._progress.stepping()
        outcome = episode.environment.step(action)
        episode.step_index += 1
        episode.terminated = outcome.terminated
        episode.truncated = not outcome.terminated and episode.step_index >= episode.birth.max_steps
        return _step_fragment(session_id, episode, outcome)


def episode_over(steps: int) -> Fault:
    """The fault of a step after the end."""
    detail = f"The episode ended after {steps} steps; delete the session and open another."
    return Fault("episode-over", EPISODE_OVER, 409, detail, {"history_length": steps})


def _as_list(actions: Sequence[str]) -> list[str]:
    return actions if isinstance(actions, list) else list(actions)


def _true_state(episode: Episode, state_key: str) -> str | msgspec.UnsetType:
    """The key of the true state where the session asks for it; ``state_key`` is that of the session's own kind."""
    if not episode.birth.true_state:
        return msgspec.UNSET
    same = episode.kind is StateKeyKind.SIMULATOR
    return state_key if same else episode.environment.state_key(StateKeyKind.SIMULATOR)


def _observation_fragment(session_id: str, episode: Episode, observation: Observation) -> ObservationFragment:
    state_key = episode.environment.state_key(episode.kind)
    return ObservationFragment(
        session_id,
        episode.birth.task_id,
        observation.text,
        _as_list(observation.admissible_actions),
        state_key,
        _true_state(episode, state_key),
        episode.step_index,
        dict(observation.info),
    )


def _step_fragment(session_id: str, episode: Episode, outcome: StepOutcome) -> StepFragment:
    observation = outcome.observation
    state_key = episode.environment.state_key(episode.kind)
    return StepFragment(
        session_id,
        episode.birth.task_id,
        observation.text,
        _as_list(observation.admissible_actions),
        state_key,
        _true_state(episode, state_key),
        episode.step_index,
        {**observation.info, "valid_action": outcome.valid_action},
        outcome.reward,
        outcome.terminated,
        episode.truncated,
    )


def _fault(error: Exception, where: str) -> Fault:
    match error:
        case UnknownTaskError():
            return Fault("unknown-task", "There is no such task", 404, str(error))
        case UnknownSplitError():
            return Fault("unknown-split", "There is no such split", 404, str(error))
        case InvalidOptionError():
            return Fault("invalid-option", "An option is not valid", 422, str(error), {"option": error.option})
        case _:
            logger.exception("the environment failed at %s", where)
            detail = f"The environment raised {type(error).__name__} at {where}: {error}"
            return Fault("environment-error", "The environment failed", 500, detail)
