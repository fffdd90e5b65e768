"""GAGPO: generalised advantage estimation on values pooled over a group's visits (DESIGN §8.1, arXiv 2605.13217).

The five steps of `Gagpo.credit` are equations 1 to 5 of docs/gagpo.md, over all groups of a training step at once.
Everything is linear in the number of steps: no steps are compared pairwise, equal states meet through a hash table.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from services.trainer.algorithms.base import Bools, CreditGroup, Floats, GroupCredit, Ints, LossKind
from shared.recipe import AdvantageKind, GagpoSettings, Normalisation, Spread, ValuePool, Visits

_ROUNDING = 1e-12
"""Differences below this share of the largest return are rounding; dividing by their spread would amplify them."""


class Gagpo:
    """GAGPO with the choices of its recipe table."""

    def __init__(self, settings: GagpoSettings, min_std: float) -> None:
        """``min_std`` is the floor of the normalising divisor, in units of the shaped reward; groups scale it."""
        self.settings = settings
        self.min_std = min_std
        # One-step TD and the Monte-Carlo advantage are GAE's two ends.
        self.lam = {AdvantageKind.GAE: settings.lam, AdvantageKind.TD: 0.0, AdvantageKind.MC: 1.0}[settings.advantage]

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        chosen = self.settings
        return LossKind(chosen.ratio, chosen.clip_low, chosen.clip_high, chosen.kl_coefficient)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order, with the numbers that led to them."""
        gamma = self.settings.gamma
        row = _lay_out(batch, self.settings.value_pool)

        returns = _discounted_sums(row.rewards, row.lengths, gamma)  # 1: G = Σ γⁿ r
        values = self._values(row, returns)  # 2: V(k) = mean of G over the visits to k
        here, after = values[row.steps], values[row.steps + 1]
        deltas = row.rewards + gamma * after - here  # 3: δ = r + γ V(k') − V(k)
        raw = _discounted_sums(deltas, row.lengths, gamma * self.lam)  # 4: A = δ + γλ A'
        advantages = self._normalised(row, returns, raw)  # 5: Â = (A − mean) / max(std, min_std)

        states = row.key[row.steps]
        visits, own_visits = row.visits()
        sibling = visits[states] > own_visits[row.own[row.steps]]
        return [
            GroupCredit(
                lengths=tuple(len(episode.rewards) for episode in group.episodes),
                returns=returns[part],
                values=here[part],
                deltas=deltas[part],
                raw=raw[part],
                advantages=advantages[part],
                states=states[part],
                visits=visits[states][part],
                has_sibling=sibling[part],
            )
            for group, part in zip(batch, row.parts, strict=True)
        ]

    def _values(self, row: "_Row", returns: Floats) -> Floats:
        """V at every position of the row, shape (P,); 0 after the last step unless bootstrapping finds one there."""
        counted = row.first_visits() if self.settings.visits is Visits.FIRST else np.ones(len(returns), bool)
        at = row.steps[counted]
        total = np.bincount(row.key[at], returns[counted], minlength=row.keys)
        visits = np.bincount(row.key[at], minlength=row.keys)
        sums, counts = total[row.key], visits[row.key]
        if self.settings.leave_one_out:
            own_total = np.bincount(row.own[at], returns[counted], minlength=row.pairs)
            own_visits = np.bincount(row.own[at], minlength=row.pairs)
            others = counts - own_visits[row.own]
            shared = others > 0  # elsewhere the episode's own visits are all there is
            sums = np.where(shared, sums - own_total[row.own], sums)
            counts = np.where(shared, others, counts)
        values: Floats = np.divide(sums, counts, out=np.zeros(len(sums)), where=counts > 0)
        ends = row.ends if not self.settings.bootstrap_truncated else row.ends[row.terminated]
        values[ends] = 0.0
        return values

    def _normalised(self, row: "_Row", returns: Floats, raw: Floats) -> Floats:
        """Â of every step, shape (S,). Where nothing but rounding differs the result is exactly 0."""
        kind = self.settings.normalisation
        scope = row.key[row.steps] if kind is Normalisation.STATE else row.group
        if kind is Normalisation.BATCH:
            scope = np.zeros_like(scope)
        scopes = int(scope.max(initial=-1)) + 1
        size = np.maximum(np.bincount(scope, minlength=scopes), 1)
        centred = raw
        if kind is not Normalisation.NONE:
            centred = raw - (np.bincount(scope, raw, minlength=scopes) / size)[scope]
        scale = np.zeros(scopes)
        np.maximum.at(scale, scope, np.abs(returns))
        centred = np.where(np.abs(centred) > _ROUNDING * scale[scope], centred, 0.0)
        if kind is Normalisation.NONE or self.settings.spread is Spread.MEAN_ONLY:
            return centred
        std = np.sqrt(np.bincount(scope, centred**2, minlength=scopes) / size)
        floor = np.zeros(scopes)
        np.maximum.at(floor, scope, self.min_std * row.scale[row.group])
        divisor = np.maximum(std, floor)[scope]
        normalised: Floats = np.divide(centred, divisor, out=np.zeros_like(centred), where=divisor > 0)
        return normalised


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A training step's episodes in one row of S steps and P = S + E positions.

    An episode's positions are its states before its steps, then the state it stopped in: the successor of a
    position is always the next one.
    """

    rewards: Floats  # (S,)
    lengths: list[int]  # steps of each of the E episodes
    steps: Ints  # (S,) position of the state before each step
    ends: Ints  # (E,) position of the state each episode stopped in
    terminated: Bools  # (E,)
    group: Ints  # (S,) number of the group
    scale: Floats  # (G,) what a success is worth in each group
    parts: list[slice]  # each group's steps
    key: Ints  # (P,) number of the state, distinct between pools
    own: Ints  # (P,) number of the pair of episode and state
    keys: int
    pairs: int

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


def _lay_out(batch: Sequence[CreditGroup], pool: ValuePool) -> _Row:
    state_number, pair_number = count(), count()
    pools: dict[str | int, defaultdict[str, int]] = {}
    rewards: list[float] = []
    lengths, key, own, terminated, sizes = [], [], [], [], []
    for index, group in enumerate(batch):
        name = index if pool is ValuePool.GROUP else group.task
        numbers = pools.setdefault(name, defaultdict(state_number.__next__))
        before = len(rewards)
        for episode in group.episodes:
            if len(episode.rewards) != len(episode.state_keys):
                raise ValueError(
                    f"{len(episode.rewards)} rewards but {len(episode.state_keys)} state keys in one episode"
                )
            states = [numbers[state] for state in (*episode.state_keys, episode.final_state_key)]
            pairs: defaultdict[int, int] = defaultdict(pair_number.__next__)
            key += states
            own += [pairs[state] for state in states]
            rewards += episode.rewards
            lengths.append(len(episode.rewards))
            terminated.append(episode.terminated)
        sizes.append(len(rewards) - before)
    ends = np.cumsum(np.array(lengths, np.int64) + 1) - 1
    steps = np.delete(np.arange(len(key)), ends)
    stops = np.cumsum(sizes, dtype=np.int64).tolist()
    return _Row(
        rewards=np.array(rewards, np.float64),
        lengths=lengths,
        steps=steps,
        ends=ends,
        terminated=np.array(terminated, np.bool_),
        group=np.repeat(np.arange(len(batch)), sizes),
        scale=np.array([group.scale for group in batch], np.float64),
        parts=[slice(stop - size, stop) for stop, size in zip(stops, sizes, strict=True)],
        key=np.array(key, np.int64),
        own=np.array(own, np.int64),
        keys=next(state_number),
        pairs=next(pair_number),
    )


def _discounted_sums(values: Floats, lengths: Sequence[int], factor: float) -> Floats:
    """``x[t] + factor · x[t+1] + …`` to the end of each episode. Shape (S,), as ``values``."""
    row = values.tolist()  # plain floats: numpy's are several times slower one at a time
    stop = len(row)
    for length in reversed(lengths):
        running = 0.0
        for t in range(stop - 1, stop - length - 1, -1):
            running = row[t] = row[t] + factor * running
        stop -= length
    return np.array(row, np.float64)
