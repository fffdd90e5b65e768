"""The answers of the credit routes, made from a record: sums for lists, cells for a picture, siblings for a step."""

from collections.abc import Callable, Iterator

import numpy as np

from services.trainer.algorithms.base import Ints
from shared.credit_record import CreditNumbers, StoredGroup, StoredRecord
from shared.prompting.tokenizer import PolicyTokenizer
from shared.schemas.credit import Cell, CellDetail, EpisodeRow, GroupCredit, GroupSummary, Sibling, StepCredit
from shared.trajectory import Episode, Group, Step


def step_credit(record: StoredRecord) -> StepCredit:
    """The groups of a training step, none of them unpacked."""
    groups = [_summary(stored, siblings) for stored, siblings in zip(record.groups, _siblings(record), strict=True)]
    return StepCredit(step=record.step, version=record.version, algorithm=record.algorithm, groups=groups)


def group_credit(record: StoredRecord, place: int, group: Group) -> GroupCredit:
    """The picture of ``group``, the one at ``place`` in the record."""
    stored, siblings = record.groups[place], _siblings(record)[place]
    rows, start = [], 0
    for number, episode in enumerate(group.episodes):
        rows.append(_row(number, episode, stored.credit, siblings, start))
        start += len(episode.steps)
    return GroupCredit(
        step=record.step,
        version=record.version,
        algorithm=record.algorithm,
        summary=_summary(stored, siblings),
        rows=rows,
    )


def cell_detail(
    record: StoredRecord,
    place: int,
    unpack: Callable[[StoredGroup], Group],
    at: tuple[int, int],
    tokenizer: PolicyTokenizer | None,
) -> CellDetail:
    """A step ``at`` (episode, turn) of the group at ``place`` in the record, which has to have it.

    ``unpack`` gives a stored group as a whole: siblings may be in other groups.
    """
    number, turn = at
    stored, group = record.groups[place], unpack(record.groups[place])
    episode = group.episodes[number]
    step, position = episode.steps[turn], sum(stored.heading.lengths[:number]) + turn
    siblings = list(_sibling_steps(record, place, position, unpack))
    return CellDetail(
        step=record.step,
        group=group.index,
        episode=number,
        turn=turn,
        episode_steps=len(episode.steps),
        won=episode.won,
        prompt=tokenizer and tokenizer.decode(step.prompt_token_ids.tolist(), special=True),
        answer=tokenizer and tokenizer.decode(step.token_ids.tolist(), special=True),
        prompt_tokens=len(step.prompt_token_ids),
        action_tokens=len(step.token_ids),
        policy_versions=sorted(set(step.policy_versions.tolist())),
        state_key=step.state_key,
        cell=_cell(step, stored.credit, position, len(siblings)),
        siblings=sorted(siblings, key=lambda sibling: (-sibling.step_return, sibling.group, sibling.episode)),
    )


def _summary(stored: StoredGroup, siblings: Ints) -> GroupSummary:
    heading, credit = stored.heading, stored.credit
    return GroupSummary(
        index=heading.index,
        environment=heading.environment,
        task_id=heading.task_id,
        task_type=heading.task_type,
        episodes=len(heading.lengths),
        won=sum(heading.won),
        steps=len(credit),
        trained_steps=int((~np.isnan(credit.ratios)).sum()),
        clipped_steps=int(credit.clipped.sum()),
        largest_advantage=float(np.abs(credit.advantages).max(initial=0.0)),
        singleton_share=float((siblings == 0).mean()) if len(siblings) else 0.0,
    )


def _row(number: int, episode: Episode, credit: CreditNumbers, siblings: Ints, start: int) -> EpisodeRow:
    stop = start + len(episode.steps)
    return EpisodeRow(
        episode=number,
        won=episode.won,
        score=episode.score,
        end=episode.end,
        total_reward=float(credit.rewards[start:stop].sum()),
        optimal_steps=episode.optimal_steps,
        final_observation=episode.final_observation,
        cells=[
            _cell(step, credit, place, int(siblings[place]))
            for place, step in zip(range(start, stop), episode.steps, strict=True)
        ],
    )


def _cell(step: Step, credit: CreditNumbers, place: int, siblings: int) -> Cell:
    ratio = float(credit.ratios[place])
    return Cell(
        reward=float(credit.rewards[place]),
        step_return=float(credit.returns[place]),
        value=float(credit.values[place]),
        delta=float(credit.deltas[place]),
        raw_advantage=float(credit.raw[place]),
        advantage=float(credit.advantages[place]),
        ratio=None if np.isnan(ratio) else ratio,
        clipped=bool(credit.clipped[place]),
        siblings=siblings,
        observation=step.observation,
        action=step.action,
        valid_action=step.valid_action,
    )


def _siblings(record: StoredRecord) -> list[Ints]:
    """How many other steps of the record are in each step's state. One array of shape (S,) for each group."""
    states = [stored.credit.states for stored in record.groups]
    everything = np.concatenate([np.zeros(0, np.int64), *states])
    _, number, visits = np.unique(everything, return_inverse=True, return_counts=True)
    ends = np.cumsum([len(of_group) for of_group in states])
    return np.split((visits[number] - 1).astype(np.int64), ends[:-1])


def _sibling_steps(
    record: StoredRecord, place: int, position: int, unpack: Callable[[StoredGroup], Group]
) -> Iterator[Sibling]:
    """The other steps in the state of the step at ``position`` of the group at ``place``."""
    state = record.groups[place].credit.states[position]
    for other, stored in enumerate(record.groups):
        credit, firsts = stored.credit, np.cumsum((0, *stored.heading.lengths))
        for there in np.flatnonzero(credit.states == state).tolist():
            if (other, there) == (place, position):
                continue
            group = unpack(stored)
            number = int(np.searchsorted(firsts, there, side="right")) - 1
            turn = there - int(firsts[number])
            step = group.episodes[number].steps[turn]
            yield Sibling(
                group=group.index,
                episode=number,
                step=turn,
                action=step.action,
                valid_action=step.valid_action,
                won=group.episodes[number].won,
                step_return=float(credit.returns[there]),
                advantage=float(credit.advantages[there]),
            )
