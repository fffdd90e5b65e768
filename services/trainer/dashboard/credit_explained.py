"""Why a step was credited as it was, in sentences, from the recorded numbers."""

from dataclasses import dataclass

import numpy as np

from services.trainer.algorithms.gagpo import gae_lambda
from services.trainer.dashboard.credit_data import OpenedGroup, plain, signed
from shared.credit_record import CreditNumbers
from shared.recipe import (
    AnyAlgorithm,
    GagpoSettings,
    GigpoSettings,
    GrpoSettings,
    Normalisation,
    PpoSettings,
    RatioKind,
    RlooSettings,
)

_SMALL = 5e-3
"""Differences that two decimals don't show."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The numbers of the step in question."""

    reward: float
    step_return: float
    value: float
    delta: float
    raw: float
    advantage: float
    ratio: float
    clipped: bool
    last: bool
    episode_return: float
    """R: the plain sum of its episode's rewards."""


@dataclass(frozen=True, slots=True)
class _Company:
    """Who was in the step's state."""

    episodes: int
    """Of its group, its own included."""
    of: int
    steps: int
    """Of the whole record, its own included."""
    mean_return: float


def explained(opened: OpenedGroup, row: int, settings: AnyAlgorithm) -> list[str]:
    """Sentences about the ``row``-th of the group's S steps, from what was known before it to what the update did."""
    step, company = _step(opened, row), _company(opened, row)
    match settings:
        case GagpoSettings():
            said = [_worth(step, company), *_bootstrapped(step, settings.gamma, gae_lambda(settings), "is worth")]
        case GigpoSettings():
            said = _two_levels(step, company, settings)
        case GrpoSettings():
            said = _whole_episode(step, "the group's episodes")
        case RlooSettings():
            said = _whole_episode(step, "the other episodes")
        case PpoSettings():
            said = [
                f"The critic expected {plain(step.value)} from this state (V).",
                *_bootstrapped(step, settings.gamma, settings.lam, "is worth, says the critic,"),
            ]
        case _:
            said = [
                f"Its return is G = {plain(step.step_return)}, compared with V = {plain(step.value)}: "
                f"A = {signed(step.raw)}."
            ]
    return [*said, _normalised(step, opened, settings), *_updated(step, settings.ratio)]


def _worth(step: _Step, company: _Company) -> str:
    if company.steps == 1:
        return (
            f"No other step was in this state, so what followed, {plain(step.step_return)}, is all that is known of "
            f"its worth: V = {plain(step.value)}."
        )
    mean = f"{_present(company)}; mean return {plain(company.mean_return)}"
    if abs(company.mean_return - step.value) < _SMALL:
        return f"{mean}, so that is what the state is worth (V)."
    return f"{mean}; as the recipe counts visits, the state is worth V = {plain(step.value)}."


def _bootstrapped(step: _Step, gamma: float, lam: float, is_worth: str) -> list[str]:
    # What the algorithm took for the value of the next state; for a step after which nothing came that is not recorded.
    after = (step.delta - step.reward + step.value) / gamma
    earned = f"the action itself earned {plain(step.reward)}"
    if step.last and abs(after) < _SMALL:
        told = f"The episode ended with this action, which earned {plain(step.reward)}: that is"
    else:
        told = (
            f"After this action the state {is_worth} {plain(after)} ({plain(gamma * after)} discounted), and {earned}:"
        )
        told += " that is"
    if abs(step.delta) < _SMALL:
        told += " what was expected (δ = 0)."
    else:
        more = "more" if step.delta > 0 else "less"
        told += f" {plain(abs(step.delta))} {more} than expected (δ = {signed(step.delta)})."
    later = step.raw - step.delta
    if lam == 0.0 or abs(later) < _SMALL:
        return [told, f"Later steps add nothing: A = {signed(step.raw)}."]
    return [told, f"The steps after it add {signed(later)}: A = {signed(step.raw)}."]


def _two_levels(step: _Step, company: _Company, settings: GigpoSettings) -> list[str]:
    episode = f"Its episode brought {plain(step.episode_return)} in all, which is compared with the group's episodes."
    if company.steps == 1:
        return [episode, "No other step was in this state, so there is nothing to compare the step itself with."]
    compared = (
        f"{_present(company)}; mean return {plain(step.value)}, and {plain(step.step_return)} after this action: "
        f"{signed(step.delta)} (δ), with weight ω = {settings.omega:g}."
    )
    return [episode, compared, f"Both together, before they are divided by their spreads: A = {signed(step.raw)}."]


def _whole_episode(step: _Step, others: str) -> list[str]:
    compared = (
        f"Its episode brought {plain(step.step_return)} in all, {others} {plain(step.value)} on average: "
        f"A = {signed(step.raw)}."
    )
    return [compared, "Every step of the episode gets the same, whichever state it was in."]


def _normalised(step: _Step, opened: OpenedGroup, settings: AnyAlgorithm) -> str:
    if step.advantage == 0.0:
        return "That leaves Â = 0: this action is neither encouraged nor discouraged."
    effect = "encouraged" if step.advantage > 0 else "discouraged"
    return f"{_how(step, opened, settings)} Â = {signed(step.advantage)}: the action is {effect}."


def _how(step: _Step, opened: OpenedGroup, settings: AnyAlgorithm) -> str:
    """How A became Â, up to where the number stands."""
    if abs(step.raw - step.advantage) < _SMALL:
        return "The loss takes it as it is,"
    match settings:
        case GagpoSettings(trajectory_weight=weight) if weight > 0:
            return "Normalised, and with a term for the episode as a whole,"
        case GrpoSettings():
            return "Divided by the spread of the episodes' sums, that is"
        case GigpoSettings():
            return "Each divided by its own spread, together that is"
        case GagpoSettings(normalisation=Normalisation.GROUP) | PpoSettings(normalisation=Normalisation.GROUP):
            return _among_group(step, opened)
        case GagpoSettings(normalisation=Normalisation.STATE):
            return "Normalised over the steps in this state, that is"
        case GagpoSettings() | PpoSettings():
            return "Normalised over the whole training step, that is"
        case _:
            return "In the end that is"


def _among_group(step: _Step, opened: OpenedGroup) -> str:
    raw = opened.credit.raw
    mean, spread = float(raw.mean()), float(raw.std())
    beyond = step.raw - mean
    if abs(beyond - step.advantage * spread) < _SMALL:
        return f"Among the group's steps, whose A is {signed(mean)} on average and spreads by {plain(spread)}, that is"
    if abs(beyond - step.advantage) < _SMALL:
        return f"Less the average A of the group's steps, {signed(mean)}, that is"
    # The group spreads by less than the recipe's floor.
    divisor = f"and divided by the least that counts, {plain(beyond / step.advantage)}"
    return f"Less the average A of the group's steps, {signed(mean)}, {divisor}, it is"


def _updated(step: _Step, ratio: RatioKind) -> list[str]:
    if np.isnan(step.ratio):
        return ["The update was not made from this step."]
    whose = "its action had" if ratio is RatioKind.SEQUENCE else "the tokens of its action had on average"
    told = f"When the update last saw the step, {whose} become {step.ratio:.3f} times as likely (ρ)"
    if step.clipped:
        return [f"{told}, which is beyond the clip: from there on it moved nothing."]
    return [f"{told}."]


def _present(company: _Company) -> str:
    visits = "" if company.steps == company.episodes else f" ({company.steps} steps)"
    return f"{company.episodes} of {company.of} episodes were here{visits}"


def _step(opened: OpenedGroup, row: int) -> _Step:
    credit, places = opened.credit, opened.places
    own = places.episodes == places.episodes[row]
    return _Step(
        reward=float(credit.rewards[row]),
        step_return=float(credit.returns[row]),
        value=float(credit.values[row]),
        delta=float(credit.deltas[row]),
        raw=float(credit.raw[row]),
        advantage=float(credit.advantages[row]),
        ratio=float(credit.ratios[row]),
        clipped=bool(credit.clipped[row]),
        last=row == int(np.flatnonzero(own)[-1]),
        episode_return=float(credit.rewards[own].sum()),
    )


def _company(opened: OpenedGroup, row: int) -> _Company:
    state = opened.credit.states[row]
    everywhere: list[CreditNumbers] = [stored.credit for stored in opened.record.groups]
    returns = np.concatenate([credit.returns[credit.states == state] for credit in everywhere])
    here = opened.credit.states == state
    return _Company(
        episodes=len(np.unique(opened.places.episodes[here])),
        of=len(opened.group.episodes),
        steps=len(returns),
        mean_return=float(returns.mean()),
    )
