"""Keeping the credit of the latest training steps in the run's folder, for people to look at."""

from collections.abc import Sequence

import numpy as np

from services.trainer.algorithms.base import Bools, Floats
from services.trainer.movement import SampleRatios
from services.trainer.rewards import Rewards
from services.trainer.step_data import StepData
from shared.credit_record import CreditedGroup, CreditNumbers, CreditRecord, write_credit_record
from shared.run_layout import RunFiles
from shared.trajectory import Group


class CreditLog:
    """The credit records of a run."""

    def __init__(self, files: RunFiles, keep: int) -> None:
        """``keep`` is how many of the latest training steps keep theirs; 0 for none."""
        self._files = files
        self._keep = keep

    def begin(self, step: int) -> None:
        """Drop what was kept of training step ``step`` and later ones: it was lost with its trainer, and comes anew."""
        for leftover in self._files.credit_folder.glob(".*"):  # of a trainer that was killed while writing
            leftover.unlink()
        self._drop([kept for kept in self._files.credit_steps() if kept >= step])

    def write(self, record: CreditRecord) -> None:
        """Keep a record, and drop the oldest ones beyond what is kept."""
        if not self._keep:
            return
        write_credit_record(self._files.credit_record(record.step), record)
        self._drop(self._files.credit_steps()[: -self._keep])

    def _drop(self, steps: Sequence[int]) -> None:
        for step in steps:
            self._files.credit_record(step).unlink()


def credit_record(
    step: int, algorithm: str, groups: Sequence[Group], data: StepData, rewards: Rewards, ratios: SampleRatios
) -> CreditRecord:
    """The record of a training step, whose ``data`` was assembled from ``groups``.

    ``ratios`` are of the samples; the steps that are none of them were not trained on.
    """
    of_steps, clipped = _spread(data.trained, ratios)
    credited, start = [], 0
    for group, credit in zip(groups, data.credits, strict=True):
        part = slice(start, start + sum(credit.lengths))
        start = part.stop
        numbers = CreditNumbers(
            rewards=np.array(rewards.of_steps(group), np.float64),
            returns=credit.returns,
            values=credit.values,
            deltas=credit.deltas,
            raw=credit.raw,
            advantages=credit.advantages,
            states=credit.states,
            ratios=of_steps[part],
            clipped=clipped[part],
        )
        credited.append(CreditedGroup(group, numbers))
    return CreditRecord(step, step + 1, algorithm, tuple(credited))


def _spread(trained: Bools, ratios: SampleRatios) -> tuple[Floats, Bools]:
    """Ratios and clips of samples, laid out over all steps. Both of shape (S,)."""
    of_steps, clipped = np.full(len(trained), np.nan), np.zeros(len(trained), np.bool_)
    of_steps[trained], clipped[trained] = ratios.ratios, ratios.clipped
    return of_steps, clipped
