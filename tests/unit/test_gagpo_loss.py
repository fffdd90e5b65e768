"""The loss against its equations written out again in plain Python, with gradients by finite differences (float64)."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from services.trainer.algorithms import LossKind
from services.trainer.losses import ActionLogprobs, SurrogateSums, k3, surrogate
from shared.recipe import RatioKind

LENGTHS = [3, 1, 4, 2]
ADVANTAGES = [1.5, -0.7, -2.0, 0.3]
KINDS = [LossKind(ratio, 0.2, 0.3, beta) for ratio in RatioKind for beta in (0.0, 0.05)]


def made_up(seed: int, padding: int = 4) -> ActionLogprobs:
    """Four actions of 3, 1, 4 and 2 tokens, some of whose ratios lie beyond the clips; rubbish in the padding."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.zeros(4, padding, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        mask[row, :length] = 1

    def draw(spread: float) -> Tensor:
        return -1.0 + spread * torch.randn(4, 4, generator=generator, dtype=torch.float64)

    new, old, reference = (torch.nn.functional.pad(draw(s), (0, padding - 4), value=-3.0) for s in (0.4, 0.4, 0.4))
    return ActionLogprobs(new, old, reference, mask)


def written_out(new: list[list[float]], p: ActionLogprobs, kind: LossKind) -> float:
    """Equations 6 and 7 of DESIGN §8.1, one step after the other."""
    total = 0.0
    for row, (length, advantage) in enumerate(zip(LENGTHS, ADVANTAGES, strict=True)):
        difference = [new[row][j] - float(p.old[row, j]) for j in range(length)]
        ratios = {
            RatioKind.ACTION: [math.exp(sum(difference) / length)],
            RatioKind.SEQUENCE: [math.exp(sum(difference))],
            RatioKind.TOKEN: [math.exp(d) for d in difference],
        }[kind.ratio]
        gains = [min(r * advantage, min(max(r, 1 - kind.clip_low), 1 + kind.clip_high) * advantage) for r in ratios]
        total -= sum(gains) / len(gains)
        to_reference = (
            [float(p.reference[row, j]) - new[row][j] for j in range(length)] if p.reference is not None else []
        )
        total += kind.kl_coefficient * sum(math.exp(d) - d - 1 for d in to_reference) / length
    return total / 4


def loss_of(p: ActionLogprobs, kind: LossKind) -> Tensor:
    return surrogate(p, torch.tensor(ADVANTAGES, dtype=torch.float64), kind).loss / 4


@pytest.mark.parametrize("ratio", RatioKind)
def test_a_step_is_told_its_ratio_and_whether_it_was_clipped(ratio: RatioKind) -> None:
    p, advantages = made_up(3), torch.tensor(ADVANTAGES, dtype=torch.float64)
    sums = surrogate(p, advantages, LossKind(ratio, 0.2, 0.3, 0.0))
    ratios, clipped, shares = [], [], []
    for row, (length, advantage) in enumerate(zip(LENGTHS, ADVANTAGES, strict=True)):
        difference = [float(p.new[row, j] - p.old[row, j]) for j in range(length)]
        found = {
            RatioKind.ACTION: [math.exp(sum(difference) / length)],
            RatioKind.SEQUENCE: [math.exp(sum(difference))],
            RatioKind.TOKEN: [math.exp(d) for d in difference],
        }[ratio]
        cut = [one > 1.3 if advantage > 0 else one < 0.8 for one in found]
        ratios.append(sum(found) / len(found))
        clipped.append(any(cut))
        shares.append(sum(cut) / len(cut))
    assert sums.steps.ratio.tolist() == pytest.approx(ratios, rel=1e-12)
    assert sums.steps.clipped.tolist() == clipped
    assert 0 < sum(clipped) < 4, "the example has both"
    assert float(sums.clipped) == pytest.approx(sum(shares))


@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_are_those_of_the_equations(kind: LossKind) -> None:
    p = made_up(3)
    new = p.new.clone().requires_grad_()
    loss = loss_of(ActionLogprobs(new, p.old, p.reference if kind.kl_coefficient else None, p.mask), kind)
    torch.autograd.backward(loss)
    plain = new.tolist()
    assert loss.item() == pytest.approx(written_out(plain, p, kind), abs=1e-12)
    assert new.grad is not None
    for row in range(4):
        for column in range(4):
            assert float(new.grad[row, column]) == pytest.approx(slope(plain, row, column, p, kind), abs=1e-7)


def slope(new: list[list[float]], row: int, column: int, p: ActionLogprobs, kind: LossKind) -> float:
    """Central difference of the written-out loss in one log-probability."""

    def at(change: float) -> float:
        moved = [list(line) for line in new]
        moved[row][column] += change
        return written_out(moved, p, kind)

    return (at(1e-6) - at(-1e-6)) / 2e-6


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_splitting_change_nothing(kind: LossKind) -> None:
    p, wide = made_up(5), made_up(5, padding=9)
    advantages = torch.tensor(ADVANTAGES, dtype=torch.float64)
    whole = float(surrogate(p, advantages, kind).loss)
    assert float(surrogate(wide, advantages, kind).loss) == pytest.approx(whole, abs=1e-12)
    assert p.reference is not None
    parts = 0.0
    for rows in (slice(0, 1), slice(1, 4)):
        part = ActionLogprobs(p.new[rows], p.old[rows], p.reference[rows], p.mask[rows])
        parts += float(surrogate(part, advantages[rows], kind).loss)
    assert parts == pytest.approx(whole, abs=1e-12)


def one_token(new: float, old: float) -> ActionLogprobs:
    one = torch.ones(1, 1, dtype=torch.float64)
    return ActionLogprobs((one * new).requires_grad_(), one * old, None, one)


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (1.5, -1.0, True), (0.5, 1.0, True), (0.5, -1.0, False), (1.1, 1.0, True), (0.9, -1.0, True)],
)
def test_the_clip_stops_the_gradient_only_where_the_ratio_already_went_the_right_way(
    ratio: float, advantage: float, moves: bool
) -> None:
    p = one_token(math.log(ratio), 0.0)
    sums = surrogate(p, torch.tensor([advantage], dtype=torch.float64), LossKind(RatioKind.ACTION, 0.2, 0.2, 0.0))
    torch.autograd.backward(sums.loss)
    assert p.new.grad is not None
    assert bool(p.new.grad.any()) is moves
    assert float(sums.clipped) == float(not moves)


def test_the_action_ratio_is_shared_by_its_tokens() -> None:
    # One token went far up, the other as far down: their mean is 0, so the action's ratio is 1 and nothing is clipped.
    new = torch.tensor([[1.0, -1.0]], dtype=torch.float64, requires_grad=True)
    zero, mask = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    advantage = torch.tensor([2.0], dtype=torch.float64)
    action = surrogate(ActionLogprobs(new, zero, None, mask), advantage, LossKind(RatioKind.ACTION, 0.2, 0.2, 0.0))
    assert action.loss.item() == -2.0
    torch.autograd.backward(action.loss)
    assert new.grad is not None
    assert new.grad.tolist() == [[-1.0, -1.0]], "both tokens get half of the advantage"
    token = surrogate(ActionLogprobs(new, zero, None, mask), advantage, LossKind(RatioKind.TOKEN, 0.2, 0.2, 0.0))
    assert float(token.clipped) == 0.5


def test_equal_policies_give_minus_the_mean_advantage_no_kl_and_no_clipping() -> None:
    p = made_up(1)
    same = ActionLogprobs(p.old, p.old, p.old, p.mask)
    for ratio in RatioKind:
        sums = surrogate(same, torch.tensor(ADVANTAGES, dtype=torch.float64), LossKind(ratio, 0.2, 0.2, 0.1))
        assert float(sums.loss) == pytest.approx(-sum(ADVANTAGES), abs=1e-12)
        assert float(sums.kl_reference) == float(sums.kl_old) == float(sums.clipped) == 0.0


def weighed(ratio: RatioKind, cap: float) -> tuple[SurrogateSums, Tensor]:
    """Two actions, of 2 tokens and of 1, with advantages 1 and −2; π_θ is π_old. Returns the sums and the gradient."""
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    # π_old / π_rollout by token: 4 and 1, then ½.
    behind = torch.tensor([[math.log(4), 0.0], [math.log(0.5), 7.0]], dtype=torch.float64)
    new = torch.full((2, 2), -1.0, dtype=torch.float64, requires_grad=True)
    old = new.detach().clone().requires_grad_()
    logprobs = ActionLogprobs(new, old, None, mask, rollout=old.detach() - behind)
    sums = surrogate(logprobs, torch.tensor([1.0, -2.0], dtype=torch.float64), LossKind(ratio, 0.2, 0.2, 0.0, cap))
    torch.autograd.backward(sums.loss)
    assert new.grad is not None
    return sums, new.grad


@pytest.mark.parametrize(
    ("ratio", "cap", "weights", "capped"),
    [
        (RatioKind.ACTION, 10.0, (2.0, 0.5), 0.0),  # √(4 · 1) = 2, and ½
        (RatioKind.ACTION, 1.5, (1.5, 0.5), 1.0),
        (RatioKind.SEQUENCE, 10.0, (4.0, 0.5), 0.0),
        (RatioKind.TOKEN, 10.0, (2.5, 0.5), 0.0),  # (4 + 1) / 2
        (RatioKind.TOKEN, 3.0, (2.0, 0.5), 0.5),  # (3 + 1) / 2, and half of the first action's tokens were cut
    ],
)
def test_steps_are_weighed_by_how_much_likelier_they_are_than_where_they_were_sampled(
    ratio: RatioKind, cap: float, weights: tuple[float, float], capped: float
) -> None:
    sums, gradient = weighed(ratio, cap)
    assert float(sums.loss.detach()) == pytest.approx(-(weights[0] * 1.0 + weights[1] * -2.0))
    assert float(sums.behaviour_weight) == pytest.approx(sum(weights))
    assert float(sums.capped) == capped
    if ratio is RatioKind.TOKEN:
        assert gradient.tolist()[0] == pytest.approx([-min(4.0, cap) / 2, -0.5])
    elif ratio is RatioKind.SEQUENCE:
        assert gradient.tolist()[0] == pytest.approx([-weights[0], -weights[0]])
    else:
        assert gradient.tolist()[0] == pytest.approx([-weights[0] / 2, -weights[0] / 2])


def test_no_gradient_flows_through_the_weights() -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    old = (-one).requires_grad_()
    logprobs = ActionLogprobs((-one).requires_grad_(), old, None, one, rollout=-2 * one)
    sums = surrogate(logprobs, one[0], LossKind(RatioKind.ACTION, 0.2, 0.2, 0.0, behaviour_cap=10.0))
    (gradient,) = torch.autograd.grad(sums.loss, old)
    # Of −w ρ Â only ρ = π_θ / π_old depends on π_old: d/dlog π_old gives + w ρ Â = e.
    assert float(gradient) == pytest.approx(math.e)


def test_without_a_cap_every_step_weighs_one_and_with_one_it_needs_the_rollouts_numbers() -> None:
    p = made_up(0)
    advantages = torch.tensor(ADVANTAGES, dtype=torch.float64)
    for ratio in RatioKind:
        sums = surrogate(p, advantages, LossKind(ratio, 0.2, 0.2, 0.0))
        assert float(sums.behaviour_weight) == 4.0
        assert float(sums.capped) == 0.0
        with pytest.raises(ValueError, match=r"behaviour_cap = 2.0 needs the policy server's log-prob"):
            surrogate(p, advantages, LossKind(ratio, 0.2, 0.2, 0.0, behaviour_cap=2.0))


def test_k3_averages_to_the_true_divergence() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.5, 0.1, 0.4])
    estimate = (p * k3(q.log() - p.log())).sum()
    assert float(estimate) == pytest.approx(float((p * (p / q).log()).sum()), abs=1e-6)


def test_an_action_without_tokens_adds_nothing_but_its_advantage() -> None:
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    new = nothing.clone().requires_grad_()
    kind: Callable[[RatioKind], LossKind] = lambda ratio: LossKind(ratio, 0.2, 0.2, 0.1)  # noqa: E731
    for ratio in RatioKind:
        sums = surrogate(
            ActionLogprobs(new, nothing, nothing, nothing), torch.ones(1, dtype=torch.float64), kind(ratio)
        )
        (gradient,) = torch.autograd.grad(sums.loss, new)
        assert math.isfinite(float(sums.loss))
        assert not gradient.any()
