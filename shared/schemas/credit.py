"""Answers of the credit routes: where a training step's credit went (`shared.credit_record`)."""

from pydantic import BaseModel, ConfigDict

from shared.trajectory import EpisodeEnd


class Message(BaseModel):
    """Base of every answer: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class CreditSteps(Message):
    """``GET /v1/jobs/{id}/credit``."""

    steps: list[int]
    """The training steps whose credit is kept, from 0, the newest last."""


class GroupSummary(Message):
    """One group of a training step."""

    index: int
    """Its place within the training step, which names it in the routes."""
    environment: str
    task_id: str
    task_type: str
    episodes: int
    won: int
    """Episodes that succeeded."""
    steps: int
    """Of all its episodes."""
    trained_steps: int
    """Steps that the update was made from: 0 for a group whose advantages are all zero."""
    clipped_steps: int
    """Of these, steps where the clip took the gradient away."""
    largest_advantage: float
    """The largest |Â|."""
    singleton_share: float
    """Share of steps whose state no other step was in."""


class StepCredit(Message):
    """``GET /v1/jobs/{id}/credit/{step}``: the groups of one training step."""

    step: int
    """The training step, from 0."""
    version: int
    """Version of the weights that it made."""
    algorithm: str
    groups: list[GroupSummary]


class CellCredit(Message):
    """The credit of one step of an episode; `shared.credit_record.CreditNumbers` says what each number is."""

    reward: float
    """r, shaped."""
    step_return: float
    """G."""
    value: float
    """V."""
    delta: float
    """δ."""
    raw_advantage: float
    """A."""
    advantage: float
    """Â."""
    ratio: float | None
    """ρ; null where the step was not trained on."""
    clipped: bool
    siblings: int
    """How many other steps were in the same state, those of the same episode included."""


class Cell(CellCredit):
    """One step in the picture of a group."""

    observation: str
    action: str
    valid_action: bool


class EpisodeRow(Message):
    """One episode of a group: its steps are the cells."""

    episode: int
    """Its place within the group, from 0."""
    won: bool
    score: float
    end: EpisodeEnd
    total_reward: float
    """Sum of the shaped rewards."""
    optimal_steps: int | None
    """Length of the expert's plan, where it is known."""
    final_observation: str
    cells: list[Cell]


class GroupCredit(Message):
    """``GET /v1/jobs/{id}/credit/{step}/groups/{index}``."""

    step: int
    version: int
    algorithm: str
    summary: GroupSummary
    rows: list[EpisodeRow]


class Sibling(Message):
    """Another step that was in the same state."""

    group: int
    """Its group's index: another one only where the algorithm pools over the whole batch."""
    episode: int
    step: int
    """Its place within the episode, from 0."""
    action: str
    valid_action: bool
    won: bool
    """Whether its episode succeeded."""
    step_return: float
    """G."""
    advantage: float
    """Â."""


class CellDetail(Message):
    """``GET …/groups/{index}/episodes/{episode}/steps/{turn}``: one step with everything that led to its credit."""

    step: int
    """The training step."""
    group: int
    episode: int
    turn: int
    """Place of the step within its episode, from 0."""
    episode_steps: int
    """Steps of the episode."""
    won: bool
    prompt: str | None
    """What the policy was shown, special tokens included; null where no tokenizer is left to read it with."""
    answer: str | None
    """All that it said, the stop token included; null likewise."""
    prompt_tokens: int
    action_tokens: int
    policy_versions: list[int]
    """The versions of the weights that sampled its tokens."""
    state_key: str
    cell: Cell
    siblings: list[Sibling]
    """By return, the best first."""
