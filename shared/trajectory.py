"""Trajectories as the orchestrator makes them and the trainer reads them: steps, episodes, groups (DESIGN §3).

Plain dataclasses with numpy arrays; `shared.buffer.codec` turns a group into bytes and back.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]


class EpisodeEnd(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """By the environment's own rules."""
    STEP_LIMIT = "step-limit"
    """Cut by the step limit."""
    PROMPT_LIMIT = "prompt-limit"
    """The task and the current observation alone no longer fit the prompt; counts as truncated."""
    GAVE_UP = "gave-up"
    """By a policy with nothing to propose: an environment's expert, where it knows no way."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One observation → one generated action → one reward: the unit of credit, and one training sample."""

    observation: str
    action: str
    """The action as the environment received it."""
    state_key: str
    """Key of the state in which the action was taken."""
    prompt_token_ids: IntArray
    """Shape (P,)."""
    token_ids: IntArray
    """The sampled tokens, exactly, the stop token included. Shape (A,)."""
    logprobs: FloatArray
    """Log-probability of each sampled token under the distribution it was sampled from, natural log. Shape (A,)."""
    policy_versions: IntArray
    """Version of the weights that sampled each token. Shape (A,)."""
    reward: float
    """The environment's own reward; scaling and penalties are the trainer's (recipe table ``reward``)."""
    valid_action: bool
    true_state: str = ""
    """Key of the true state in which the action was taken, whatever ``state_key`` groups by; empty where it is not
    known. Two steps with equal state keys and different true states are not really siblings."""


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One run of the policy on a task."""

    steps: tuple[Step, ...]
    end: EpisodeEnd
    final_state_key: str
    """Key of the state in which the episode stopped."""
    won: bool
    score: float
    """How well it went: the last ``info.score`` where the environment grades its episodes (from 0 to 1), whatever it
    pays for; else the sum of the environment's own rewards."""
    optimal_steps: int | None = None
    """Length of the expert's plan, where the environment was asked for it."""
    final_observation: str = ""
    """What was seen in the state in which the episode stopped."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """N episodes of the same task from the same initial state."""

    step: int
    """The training step that this group is for, from 0."""
    index: int
    """Its place within that training step, from 0."""
    environment: str
    task_id: str
    task_type: str
    """The environment's own kind of task, for metrics; empty where it has none."""
    episodes: tuple[Episode, ...]
    generation_s: float = 0.0
    """Seconds from the first to the last step."""
