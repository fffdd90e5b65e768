"""One step of a group in full: why it was credited as it was, its numbers, what else was done there, what it read."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import ui

from services.trainer.dashboard.credit_data import Spot, plain, signed
from services.trainer.dashboard.parts import chip, facts, written
from shared.schemas.credit import CellDetail, Sibling

MOST_SIBLINGS = 40
"""Rows of the list; the picture marks all of them."""

GoTo = Callable[[Spot], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StepView:
    """What is shown of a step."""

    detail: CellDetail
    outcome: str
    """Of its episode."""
    sentences: list[str]
    other_situations: int
    """Steps that only seem to be in its state."""
    compared: list[tuple[str, float]]
    """What other algorithms give it: name and Â."""


def draw_step(view: StepView, go_to: GoTo, close: Callable[[], None]) -> None:
    """The whole panel."""
    detail = view.detail
    _head(view, close)
    with ui.element("div").classes("credit-step"):
        with ui.element("div").classes("credit-why"):
            written("p", detail.cell.action, "mono credit-action")
            written("p", " ".join(view.sentences), "credit-sentences")
            facts(_numbers(view))
        with ui.element("div"):
            _state(detail, go_to)
            if view.other_situations:
                seem = "was" if view.other_situations == 1 else "were"
                told = f"{view.other_situations} of them {seem} really in another situation that reads the same."
                written("p", told, "muted")
    written("h3", "What the policy read")
    if detail.prompt is None:
        written("p", "The observation alone: the tokenizer that the prompt was made with is gone.", "muted")
    _text(detail.cell.observation if detail.prompt is None else detail.prompt, "Prompt")
    if detail.answer is not None:
        written("h3", "What it answered")
        _text(detail.answer, "Answer")
    weights = ", ".join(map(str, detail.policy_versions)) or "none"
    tokens = f"{detail.prompt_tokens} tokens read, {detail.action_tokens} sampled; version of the weights: {weights}."
    written("p", tokens, "muted numbers")


def _head(view: StepView, close: Callable[[], None]) -> None:
    detail = view.detail
    with ui.element("div").classes("credit-head"):
        written("h2", f"Episode {detail.episode}, step {detail.turn} of {detail.episode_steps}")
        chip(view.outcome, "good" if detail.won else "bad")
        if detail.cell.clipped:
            chip("clipped", "warn")
        if not detail.cell.valid_action:
            chip("not understood", "warn")
        ui.button(icon="close", on_click=lambda: close(), color=None).props(
            'flat round dense aria-label="Close the step"'
        ).classes("credit-close")


def _numbers(view: StepView) -> list[tuple[str, str]]:
    cell = view.detail.cell
    trained = cell.ratio is not None
    pairs = [
        ("reward r", plain(cell.reward)),
        ("return G", plain(cell.step_return)),
        ("value V(s)", plain(cell.value)),
        ("δ", signed(cell.delta)),
        ("advantage A", signed(cell.raw_advantage)),
        ("normalised Â", signed(cell.advantage)),
        ("ratio ρ", "not trained on" if cell.ratio is None else f"{cell.ratio:.3f}"),
        ("clipped", ("yes" if cell.clipped else "no") if trained else "–"),
    ]
    return [*pairs, *((f"Â by {name}", signed(value)) for name, value in view.compared)]


def _state(detail: CellDetail, go_to: GoTo) -> None:
    written("h3", "What was done in this state, by return")
    if not detail.siblings:
        written("p", "Nothing else: no other step was here.", "muted")
        return
    listed = sorted([*detail.siblings, _itself(detail)], key=lambda one: -one.step_return)
    with ui.element("div").classes("credit-sibling credit-columns muted"):
        for name in ("at", "action", "G", "Â"):
            written("span", name)
        written("span", "episode", "credit-outcome")
    with ui.element("ul").classes("credit-siblings").props('aria-label="Steps in this state" tabindex="0"'):
        for one in listed[:MOST_SIBLINGS]:
            with ui.element("li"):
                _state_step(one, detail, go_to)
    if len(listed) > MOST_SIBLINGS:
        written("p", f"And {len(listed) - MOST_SIBLINGS} more, all marked above.", "muted")


def _itself(detail: CellDetail) -> Sibling:
    return Sibling(
        group=detail.group,
        episode=detail.episode,
        step=detail.turn,
        action=detail.cell.action,
        valid_action=detail.cell.valid_action,
        won=detail.won,
        step_return=detail.cell.step_return,
        advantage=detail.cell.advantage,
    )


def _state_step(one: Sibling, detail: CellDetail, go_to: GoTo) -> None:
    here = one.group == detail.group
    itself = here and (one.episode, one.step) == (detail.episode, detail.turn)
    leads = here and not itself
    outcome = "won" if one.won else "not won"
    # A plain button: Quasar's would be five elements in each of up to forty rows.
    with ui.element("button" if leads else "div").classes("credit-sibling") as line:
        written("span", f"{one.episode} · {one.step}", "numbers credit-spot")
        written("span", one.action, "mono credit-sibling-action")
        written("span", plain(one.step_return), "numbers")
        written("span", signed(one.advantage), "numbers")
        written("span", "this step" if itself else outcome if here else f"group {one.group}", "credit-outcome")
    if itself:
        line.classes("credit-itself")
    if leads:
        line.props('type="button"')
        line.on("click", lambda: go_to(Spot(one.episode, one.step)))


def _text(text: str, label: str) -> None:
    written("pre", text, "mono credit-text").props(f'tabindex="0" role="region" aria-label="{label}"')
