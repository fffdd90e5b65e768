"""The warm-up's training: what is asked of the policy, and in what order."""

import pytest
import torch

from services.trainer.small_policy.model import Size, build_model
from services.trainer.small_policy.sampling import sample_actions
from services.trainer.small_policy.tokenizer import END_ID
from services.trainer.warmstart_episodes import Sample
from services.trainer.warmstart_fit import FitSettings, Row, batches, fit, imitation_loss, rows, schedule

TINY = Size(hidden=64, feed_forward=64, layers=1, heads=2, context=64)
EPISODE = [
    Sample([10, 11], [20, END_ID]),
    Sample([10, 11, 20, 12], [21, 22, END_ID]),
    Sample([10, 11, 20, 12, 21, 22, 13, 14], [23, END_ID]),
]


def test_an_episode_whose_prompts_only_grow_is_one_row() -> None:
    (row,) = rows([EPISODE])
    assert row.tokens == [10, 11, 20, 12, 21, 22, 13, 14, 23]
    asked = {place: target for place, target in enumerate(row.targets) if target >= 0}
    assert asked == {1: 20, 2: END_ID, 3: 21, 4: 22, 5: END_ID, 7: 23, 8: END_ID}


def test_a_prompt_that_was_cut_begins_a_new_row() -> None:
    cut = Sample([11, 20, 12], [21, END_ID])
    assert [len(row.tokens) for row in rows([[EPISODE[0], cut], [EPISODE[0]]])] == [3, 4, 3]


def test_a_row_has_the_loss_of_its_samples_one_by_one() -> None:
    model = build_model(TINY, 0)
    alone = [rows([[sample]])[0] for sample in EPISODE]
    answers = [len(sample.answer) for sample in EPISODE]
    separate = [imitation_loss(model, [row]).item() * n for row, n in zip(alone, answers, strict=True)]
    together = imitation_loss(model, rows([EPISODE])).item()
    assert together == pytest.approx(sum(separate) / sum(answers), rel=1e-5)


def test_padding_changes_no_loss() -> None:
    model = build_model(TINY, 0)
    short, long = Row([10, 11], [-100, 20]), Row([10] * 30, [-100] * 29 + [20])
    both = imitation_loss(model, [short, long]).item()
    assert both == pytest.approx((imitation_loss(model, [short]) + imitation_loss(model, [long])).item() / 2, rel=1e-5)


def test_the_learning_rate_rises_and_falls() -> None:
    factors = [schedule(number, 200, 0.1) for number in range(200)]
    assert max(factors) == pytest.approx(1.0)
    assert factors.index(max(factors)) in (19, 20)
    assert factors[0] < 0.1
    assert factors[-1] < 0.05
    assert factors[20:] == sorted(factors[20:], reverse=True)


def test_fitting_teaches_the_answers_and_reports_every_batch() -> None:
    model = build_model(TINY, 0)
    found, settings, losses = rows([EPISODE] * 8), FitSettings(epochs=40, batch=4, learning_rate=1e-2), []
    fit(model, found, settings, 0, losses.append)
    assert len(losses) == batches(len(found), settings) == 80
    assert losses[-1] < 0.05 < losses[0]
    prompts = [sample.prompt for sample in EPISODE]
    answers = sample_actions(model, prompts, temperature=0.0, max_tokens=5, generator=torch.Generator())
    assert answers == [sample.answer for sample in EPISODE]


def test_fitting_with_the_same_seed_gives_the_same_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        model = build_model(TINY, 0)
        other = [Sample([30, 31], [32, END_ID])]
        fit(model, rows([EPISODE, other] * 8), FitSettings(epochs=2, batch=4), seed)
        return model.lm_head.weight.detach()

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
