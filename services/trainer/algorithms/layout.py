"""A training step's episodes laid out in one row, so that an algorithm is a few lines of numpy over all groups at once.

Everything is linear in the number of steps: no steps are compared pairwise, equal states meet through a hash table.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from services.trainer.algorithms.base import UNKNOWN, Bools, CreditEpisode, CreditGroup, Floats, GroupCredit, Ints
from services.trainer.algorithms.clustering import representatives
from shared.recipe import ValuePool


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """G groups of E episodes, in one row of S steps and P = S + E positions.

    An episode's positions are its states before its steps, then the state it stopped in: the successor of a
    position is always the next one.
    """

    rewards: Floats  # (S,)
    lengths: list[int]  # steps of each episode
    steps: Ints  # (S,) position of the state before each step
    ends: Ints  # (E,) position of the state each episode stopped in
    terminated: Bools  # (E,)
    episode: Ints  # (S,) number of the episode
    episode_group: Ints  # (E,) number of the episode's group
    scale: Floats  # (G,) what a success is worth in each group
    key: Ints  # (P,) number of the state, distinct between pools
    own: Ints  # (P,) number of the pair of episode and state
    keys: int
    pairs: int
    true_states: Ints  # (S,) number of the true state, or `UNKNOWN`

    @property
    def group(self) -> Ints:
        """Number of each step's group. Shape (S,)."""
        return self.episode_group[self.episode]

    @property
    def states(self) -> Ints:
        """Number of the state before each step. Shape (S,)."""
        return self.key[self.steps]

    def episode_sums(self, of_steps: Floats) -> Floats:
        """Sum over each episode's steps. Shape (E,)."""
        return np.bincount(self.episode, of_steps, minlength=len(self.lengths)).astype(np.float64)

    def sizes(self) -> Floats:
        """Σ|r| of each step's episode, next to which a difference may be rounding. Shape (S,)."""
        return self.episode_sums(np.abs(self.rewards))[self.episode]

    def floors(self, min_std: float | None) -> Floats | None:
        """The floor of the normalising divisor at each step, in its group's units. Shape (S,); None for no divisor."""
        return None if min_std is None else min_std * self.scale[self.group]

    def visits(self) -> tuple[Ints, Ints]:
        """How many steps are in each state, shape (keys,), and in each pair of episode and state, shape (pairs,)."""
        at = self.steps
        return np.bincount(self.key[at], minlength=self.keys), np.bincount(self.own[at], minlength=self.pairs)

    def first_visits(self) -> Bools:
        """Whether a step is its episode's first in that state. Shape (S,)."""
        own = self.own[self.steps]
        first = np.full(self.pairs, len(own))
        np.minimum.at(first, own, np.arange(len(own)))
        is_first: Bools = first[own] == np.arange(len(own))
        return is_first

    def credits(
        self, *, returns: Floats, values: Floats, deltas: Floats, raw: Floats, advantages: Floats
    ) -> list[GroupCredit]:
        """One `GroupCredit` for each group, from numbers of shape (S,) over the whole row."""
        states = self.states
        visits, own_visits = self.visits()
        sibling = visits[states] > own_visits[self.own[self.steps]]
        episodes = np.bincount(self.episode_group, minlength=len(self.scale)).tolist()
        found: list[GroupCredit] = []
        episode = step = 0
        for size in episodes:
            lengths = tuple(self.lengths[episode : episode + size])
            part = slice(step, step + sum(lengths))
            episode, step = episode + size, part.stop
            found.append(
                GroupCredit(
                    lengths=lengths,
                    returns=returns[part],
                    values=values[part],
                    deltas=deltas[part],
                    raw=raw[part],
                    advantages=advantages[part],
                    states=states[part],
                    visits=visits[states[part]],
                    has_sibling=sibling[part],
                    true_states=self.true_states[part],
                )
            )
        return found


def lay_out(batch: Sequence[CreditGroup], pool: ValuePool = ValuePool.GROUP, similarity: float | None = None) -> Row:
    """The row of a training step's groups.

    States are the same within a ``pool`` where their keys are equal or, with ``similarity``, where their observations
    are joined into one cluster. Raises `ValueError` where an episode's sequences are not of one length.
    """
    pools = [str(index) if pool is ValuePool.GROUP else group.task for index, group in enumerate(batch)]
    names = _keys(batch) if similarity is None else _joined_observations(batch, pools, similarity)
    state_number, pair_number, truth_number = count(), count(), count()
    numbers: dict[str, defaultdict[str, int]] = {name: defaultdict(state_number.__next__) for name in pools}
    truths: defaultdict[str, int] = defaultdict(truth_number.__next__)
    rewards: list[float] = []
    key: list[int] = []
    own: list[int] = []
    true_states: list[int] = []
    for group, name, of_group in zip(batch, pools, names, strict=True):
        number = numbers[name]
        for episode, of_episode in zip(group.episodes, of_group, strict=True):
            states = [number[state] for state in of_episode]
            pairs: defaultdict[int, int] = defaultdict(pair_number.__next__)
            key += states
            own += [pairs[state] for state in states]
            rewards += episode.rewards
            true_states += _true_states(episode, truths)
    episodes = [episode for group in batch for episode in group.episodes]
    lengths = [len(episode.rewards) for episode in episodes]
    ends = np.cumsum(np.array(lengths, np.int64) + 1) - 1
    return Row(
        rewards=np.array(rewards, np.float64),
        lengths=lengths,
        steps=np.delete(np.arange(len(key)), ends),
        ends=ends,
        terminated=np.array([episode.terminated for episode in episodes], np.bool_),
        episode=np.repeat(np.arange(len(episodes)), lengths),
        episode_group=np.repeat(np.arange(len(batch)), [len(group.episodes) for group in batch]),
        scale=np.array([group.scale for group in batch], np.float64),
        key=np.array(key, np.int64),
        own=np.array(own, np.int64),
        keys=next(state_number),
        pairs=next(pair_number),
        true_states=np.array(true_states, np.int64),
    )


def discounted_sums(values: Floats, lengths: Sequence[int], factor: float) -> Floats:
    """``x[t] + factor · x[t+1] + …`` to the end of each episode. Shape (S,), as ``values``."""
    row = values.tolist()  # plain floats: numpy's are several times slower one at a time
    stop = len(row)
    for length in reversed(lengths):
        running = 0.0
        for t in range(stop - 1, stop - length - 1, -1):
            running = row[t] = row[t] + factor * running
        stop -= length
    return np.array(row, np.float64)


_Names = list[list[list[str]]]
"""What tells states apart, for each group and episode: T of them, and the final state's."""


def _keys(batch: Sequence[CreditGroup]) -> _Names:
    return [
        [[*_as_long(episode, episode.state_keys, "state keys"), episode.final_state_key] for episode in group.episodes]
        for group in batch
    ]


def _joined_observations(batch: Sequence[CreditGroup], pools: Sequence[str], similarity: float) -> _Names:
    texts = [
        [
            [*_as_long(episode, episode.observations, "observations"), episode.final_observation]
            for episode in group.episodes
        ]
        for group in batch
    ]
    seen: dict[str, set[str]] = {name: set() for name in pools}
    for name, of_group in zip(pools, texts, strict=True):
        seen[name].update(*of_group)
    joined = {name: representatives(distinct, similarity) for name, distinct in seen.items()}
    return [
        [[joined[name][text] for text in of_episode] for of_episode in of_group]
        for name, of_group in zip(pools, texts, strict=True)
    ]


def _true_states(episode: CreditEpisode, numbers: defaultdict[str, int]) -> list[int]:
    if not episode.true_states:
        return [UNKNOWN] * len(episode.rewards)
    return [numbers[truth] if truth else UNKNOWN for truth in _as_long(episode, episode.true_states, "true states")]


def _as_long(episode: CreditEpisode, found: Sequence[str], what: str) -> Sequence[str]:
    if len(found) != len(episode.rewards):
        raise ValueError(f"{len(episode.rewards)} rewards but {len(found)} {what} in one episode")
    return found
