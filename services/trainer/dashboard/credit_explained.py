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
from shared.schemas.credit import Cell

_SMALL = 5e-3
"""Differences that two decimals don't show."""


@dataclass(frozen=True, slots=True)
class _Company:
    """Who was in the step's state."""

    episodes: int
    """Of its group, its own included."""
    of: int
    mean_return: float
    """Of all steps there, in the whole record."""


def explained(opened: OpenedGroup, row: int, settings: AnyAlgorithm) -> list[str]:
    """Sentences about the ``row``-th of the group's S steps, from what was known before it to what the update did."""
    episode, turn = opened.picture.rows[opened.places.episodes[row]], int(opened.places.turns[row])
    cell, last, company = episode.cells[turn], turn == len(episode.cells) - 1, _company(opened, row)
    match settings:
        case GagpoSettings():
            said = [_worth(cell, company), *_bootstrapped(cell, last, settings.gamma, gae_lambda(settings), "is worth")]
        case GigpoSettings():
            said = _two_levels(cell, episode.total_reward, company, settings)
        case GrpoSettings():
            said = _whole_episode(cell, "the group's episodes")
        case RlooSettings():
            said = _whole_episode(cell, "the other episodes")
        case PpoSettings():
            said = [
                f"The critic expected {plain(cell.value)} from this state (V).",
                *_bootstrapped(cell, last, settings.gamma, settings.lam, "is worth, says the critic,"),
            ]
        case _:
            said = [
                f"Its return is G = {plain(cell.step_return)}, compared with V = {plain(cell.value)}: "
                f"A = {signed(cell.raw_advantage)}."
            ]
    return [*said, _normalised(cell, opened, settings), *_updated(cell, settings.ratio)]


def _worth(cell: Cell, company: _Company) -> str:
    if cell.siblings == 0:
        return (
            f"No other step was in this state, so what followed, {plain(cell.step_return)}, is all that is known of "
            f"its worth: V = {plain(cell.value)}."
        )
    mean = f"{_present(cell, company)}; mean return {plain(company.mean_return)}"
    if abs(company.mean_return - cell.value) < _SMALL:
        return f"{mean}, so that is what the state is worth (V)."
    return f"{mean}; as the recipe counts visits, the state is worth V = {plain(cell.value)}."


def _bootstrapped(cell: Cell, last: bool, gamma: float, lam: float, is_worth: str) -> list[str]:
    # What the algorithm took for the value of the next state; for a step after which nothing came that is not recorded.
    after = (cell.delta - cell.reward + cell.value) / gamma
    earned = f"the action itself earned {plain(cell.reward)}"
    if last and abs(after) < _SMALL:
        told = f"The episode ended with this action, which earned {plain(cell.reward)}: that is"
    else:
        told = (
            f"After this action the state {is_worth} {plain(after)} ({plain(gamma * after)} discounted), and {earned}:"
        )
        told += " that is"
    if abs(cell.delta) < _SMALL:
        told += " what was expected (δ = 0)."
    else:
        more = "more" if cell.delta > 0 else "less"
        told += f" {plain(abs(cell.delta))} {more} than expected (δ = {signed(cell.delta)})."
    later = cell.raw_advantage - cell.delta
    if lam == 0.0 or abs(later) < _SMALL:
        return [told, f"Later steps add nothing: A = {signed(cell.raw_advantage)}."]
    return [told, f"The steps after it add {signed(later)}: A = {signed(cell.raw_advantage)}."]


def _two_levels(cell: Cell, episode_return: float, company: _Company, settings: GigpoSettings) -> list[str]:
    episode = f"Its episode brought {plain(episode_return)} in all, which is compared with the group's episodes."
    if cell.siblings == 0:
        return [episode, "No other step was in this state, so there is nothing to compare the step itself with."]
    compared = (
        f"{_present(cell, company)}; mean return {plain(cell.value)}, and {plain(cell.step_return)} after this action: "
        f"{signed(cell.delta)} (δ), with weight ω = {settings.omega:g}."
    )
    return [
        episode,
        compared,
        f"Both together, before they are divided by their spreads: A = {signed(cell.raw_advantage)}.",
    ]


def _whole_episode(cell: Cell, others: str) -> list[str]:
    compared = (
        f"Its episode brought {plain(cell.step_return)} in all, {others} {plain(cell.value)} on average: "
        f"A = {signed(cell.raw_advantage)}."
    )
    return [compared, "Every step of the episode gets the same, whichever state it was in."]


def _normalised(cell: Cell, opened: OpenedGroup, settings: AnyAlgorithm) -> str:
    if cell.advantage == 0.0:
        return "That leaves Â = 0: this action is neither encouraged nor discouraged."
    effect = "encouraged" if cell.advantage > 0 else "discouraged"
    return f"{_how(cell, opened, settings)} Â = {signed(cell.advantage)}: the action is {effect}."


def _how(cell: Cell, opened: OpenedGroup, settings: AnyAlgorithm) -> str:
    """How A became Â, up to where the number stands."""
    if abs(cell.raw_advantage - cell.advantage) < _SMALL:
        return "The loss takes it as it is,"
    match settings:
        case GagpoSettings(trajectory_weight=weight) if weight > 0:
            return "Normalised, and with a term for the episode as a whole,"
        case GrpoSettings():
            return "Divided by the spread of the episodes' sums, that is"
        case GigpoSettings():
            return "Each divided by its own spread, together that is"
        case GagpoSettings(normalisation=Normalisation.GROUP) | PpoSettings(normalisation=Normalisation.GROUP):
            return _among_group(cell, opened)
        case GagpoSettings(normalisation=Normalisation.STATE):
            return "Normalised over the steps in this state, that is"
        case GagpoSettings() | PpoSettings():
            return "Normalised over the whole training step, that is"
        case _:
            return "In the end that is"


def _among_group(cell: Cell, opened: OpenedGroup) -> str:
    raw = opened.credit.raw
    mean, spread = float(raw.mean()), float(raw.std())
    beyond = cell.raw_advantage - mean
    if abs(beyond - cell.advantage * spread) < _SMALL:
        return f"Among the group's steps, whose A is {signed(mean)} on average and spreads by {plain(spread)}, that is"
    if abs(beyond - cell.advantage) < _SMALL:
        return f"Less the average A of the group's steps, {signed(mean)}, that is"
    # The group spreads by less than the recipe's floor.
    divisor = f"and divided by the least that counts, {plain(beyond / cell.advantage)}"
    return f"Less the average A of the group's steps, {signed(mean)}, {divisor}, it is"


def _updated(cell: Cell, ratio: RatioKind) -> list[str]:
    if cell.ratio is None:
        return ["The update was not made from this step."]
    whose = "its action had" if ratio is RatioKind.SEQUENCE else "the tokens of its action had on average"
    told = f"When the update last saw the step, {whose} become {cell.ratio:.3f} times as likely (ρ)"
    if cell.clipped:
        return [f"{told}, which is beyond the clip: from there on it moved nothing."]
    return [f"{told}."]


def _present(cell: Cell, company: _Company) -> str:
    steps = cell.siblings + 1
    visits = "" if steps == company.episodes else f" ({steps} steps)"
    return f"{company.episodes} of {company.of} episodes were here{visits}"


def _company(opened: OpenedGroup, row: int) -> _Company:
    state = opened.credit.states[row]
    everywhere: list[CreditNumbers] = [stored.credit for stored in opened.record.groups]
    returns = np.concatenate([credit.returns[credit.states == state] for credit in everywhere])
    here = opened.credit.states == state
    return _Company(
        episodes=len(np.unique(opened.places.episodes[here])),
        of=len(opened.group.episodes),
        mean_return=float(returns.mean()),
    )
