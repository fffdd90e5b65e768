"""Credit records as trainings leave them: made-up episodes in a small household, credited by the real algorithms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from services.trainer.algorithms import GroupCredit, make_algorithm
from services.trainer.rewards import Rewards
from shared.credit_record import CreditedGroup, CreditNumbers, CreditRecord
from shared.recipe import Recipe
from shared.trajectory import Episode, EpisodeEnd, Group, Step

PLACES = ("shelf 1", "drawer 1", "drawer 2", "desk 1", "cabinet 1", "sofa 1")
THINGS = ("apple", "book", "mug")
WORDS = (
    "Task: put the apple book mug into the . You are at in middle of room in front shelf drawer desk cabinet sofa 1 2 "
    "see here nothing hold and you your hands empty > go to take from look dance"
)
"""Every word of the household's prompts and actions, for a tokenizer of words."""

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class _State:
    where: str | None
    holding: bool


@dataclass(frozen=True)
class _Chore:
    thing: str
    lies_at: str
    goal: str

    @property
    def task(self) -> str:
        return f"Task: put the {self.thing} into the {self.goal} ."

    def observation(self, state: _State) -> str:
        hands = f"you hold the {self.thing} ." if state.holding else "your hands are empty ."
        if state.where is None:
            return f"You are in the middle of the room and {hands}"
        lies = state.where == self.lies_at and not state.holding
        seen = f"You see the {self.thing} here ." if lies else "You see nothing here ."
        return f"You are in front of the {state.where} and {hands} {seen}"

    def best(self, state: _State) -> str:
        if not state.holding:
            return f"take {self.thing} from {self.lies_at}" if state.where == self.lies_at else f"go to {self.lies_at}"
        return f"put {self.thing} into {self.goal}" if state.where == self.goal else f"go to {self.goal}"

    def after(self, state: _State, action: str) -> tuple[_State, bool, bool]:
        """The next state, whether the action was understood, and whether the chore is done."""
        if action.startswith("go to "):
            return _State(action.removeprefix("go to "), state.holding), True, False
        if action == self.best(state) and action.startswith("take"):
            return _State(state.where, True), True, False
        if action == self.best(state) and action.startswith("put"):
            return state, True, True
        return state, action == "look", False


def played_group(
    step: int, index: int, *, episodes: int = 8, most_steps: int = 12, skill: float = 0.4, encode: Encode | None = None
) -> Group:
    """Episodes of a policy that knows better with probability ``skill``; decided by the arguments alone."""
    random = np.random.default_rng([step, index])
    lies, goal = random.choice(len(PLACES), 2, replace=False)
    chore = _Chore(THINGS[index % len(THINGS)], PLACES[lies], PLACES[goal])
    played = [_play(chore, random, most_steps, skill, encode or _bytes) for _ in range(episodes)]
    return Group(step, index, "maze", f"{chore.thing}-{index}", "put away", tuple(played), 2.0)


def played_record(recipe: Recipe, groups: Sequence[Group]) -> CreditRecord:
    """The groups of one training step with the credit that the recipe's algorithm gives them."""
    rewards, random = Rewards(recipe), np.random.default_rng(groups[0].step)
    critic = [_critic(group, random) if recipe.algorithm.name == "ppo" else [] for group in groups]
    credits = make_algorithm(recipe).credit([rewards.credit_group(*pair) for pair in zip(groups, critic, strict=True)])
    credited = [
        CreditedGroup(group, _numbers(rewards.of_steps(group), credit, random))
        for group, credit in zip(groups, credits, strict=True)
    ]
    return CreditRecord(groups[0].step, groups[0].step + 1, recipe.algorithm.name, tuple(credited))


def _play(chore: _Chore, random: np.random.Generator, most: int, skill: float, encode: Encode) -> Episode:
    state, steps, done = _State(None, False), list[Step](), False
    while not done and len(steps) < most:
        choices = [f"go to {place}" for place in PLACES] + ["look", "dance"]
        action = chore.best(state) if random.random() < skill else str(random.choice(choices))
        observation = chore.observation(state)
        state, valid, done = chore.after(state, action)
        tokens = np.array(encode(action), np.int32)
        steps.append(
            Step(
                observation=observation,
                action=action,
                state_key=observation,
                prompt_token_ids=np.array(encode(f"{chore.task} {observation} >"), np.int32),
                token_ids=tokens,
                logprobs=-random.random(len(tokens)).astype(np.float32),
                policy_versions=np.zeros(len(tokens), np.int32),
                reward=float(done),
                valid_action=valid,
            )
        )
    end = EpisodeEnd.TERMINATED if done else EpisodeEnd.STEP_LIMIT
    last = chore.observation(state)
    return Episode(tuple(steps), end, last, done, float(done), optimal_steps=4, final_observation=last)


def _numbers(rewards: list[float], credit: GroupCredit, random: np.random.Generator) -> CreditNumbers:
    ratios = np.exp(random.normal(0.0, 0.1, len(rewards)))
    if not credit.advantages.any():
        ratios[:] = np.nan
    beyond = np.where(credit.advantages > 0, ratios > 1.2, ratios < 0.8)
    return CreditNumbers(
        rewards=np.array(rewards),
        returns=credit.returns,
        values=credit.values,
        deltas=credit.deltas,
        raw=credit.raw,
        advantages=credit.advantages,
        states=credit.states,
        ratios=ratios,
        clipped=beyond & (credit.advantages != 0),
    )


def _critic(group: Group, random: np.random.Generator) -> list[float]:
    """A critic's values, in units of a success."""
    return random.random(sum(len(episode.steps) for episode in group.episodes)).tolist()


def _bytes(text: str) -> list[int]:
    return list(text.encode())
