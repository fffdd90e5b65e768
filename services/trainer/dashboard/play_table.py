"""A game on the page: what is seen, what can be done, the expert's hint, and the turns so far."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments, ValueChangeEventArguments

from services.trainer.dashboard.episode_parts import ShownTurn, Transcript
from services.trainer.dashboard.parts import Tone, card, facts, notice, text_block, written
from services.trainer.dashboard.play_data import (
    ActionGroup,
    Blank,
    Ending,
    Game,
    Offered,
    Outcome,
    ending,
    has_expert,
    matches,
    offered,
    understood,
)
from shared.schemas.environment import MAX_ACTION_CHARS
from shared.shop_page import Buttons, Clickable, Line, Listed

Act = Callable[[str], Awaitable[None]]

_TONES: dict[Outcome, Tone] = {Outcome.WON: "good", Outcome.LOST: "bad", Outcome.CUT: "warn"}

_ENTERED = "(event) => { if (!event.isComposing) emit(event.target.value); }"
_READY = """
requestAnimationFrame(() => {
  const now = document.querySelector(".play-now");
  if (!now) return;
  if (now.getBoundingClientRect().top < 0) now.scrollIntoView();
  const turns = document.querySelector(".play-turns .turns");
  turns.scrollTop = turns.scrollHeight;
  const lost = document.activeElement === document.body;
  if (lost && matchMedia("(pointer: fine)").matches)
    now.querySelector(".play-fields input")?.focus({preventScroll: true});
});
"""
"""The game's beginning and the newest turn come into sight; the keyboard goes on in the field where the button is gone.

Where there is no mouse a field takes half of the screen for its keyboard: there nobody asked for it.
"""


@dataclass(slots=True)
class _Group:
    """A group of buttons on the page."""

    place: ui.element
    buttons: dict[str, TextElement] = field(default_factory=dict)
    """Action → button."""


class Table:
    """One browser's game; another one takes its place when it begins."""

    def __init__(self, act: Act, start_over: Callable[[], Awaitable[None]]) -> None:
        """``act`` is told each action, by whatever means it was given. Nothing is shown before `begin`."""
        self._act = act
        self._groups: list[_Group] = []
        self._experts = ""
        """What the expert would do now."""
        with ui.element("div").classes("play-table") as self._place:
            with card() as now:
                now.classes("play-now").props('aria-label="The game"')
                with ui.element("div").classes("play-head"):
                    self._title = written("h2", "")
                    ui.button("Start over", on_click=lambda: start_over(), color=None).props(
                        "outline dense no-caps"
                    ).classes("action")
                self._task = written("p", "", "muted small")
                self._standing = ui.element("div").classes("play-standing")
                self._end = ui.element("div").classes("play-end")
                self._seen = ui.element("div").classes("play-seen").props('role="region" aria-label="What you see"')
                self._doing = ui.element("div").classes("play-doing")
                with self._doing:
                    self._draw_doing()
            with card("Turns") as turns:
                turns.classes("play-turns")
                self._transcript = Transcript("Turns of this episode")
                self._session = written("p", "", "muted small")
        self._place.set_visibility(False)

    def begin(self, game: Game, url: str) -> None:
        """Show a game from its first observation on; ``url`` is where it is played."""
        first = game.first
        self._title.set_text(game.goal or first.task_id)
        kind = first.info.get("task_type")
        self._task.set_text(" · ".join([first.task_id, *([kind] if isinstance(kind, str) else [])]))
        self._session.set_text(f"Session {first.session_id} on {url}")
        self._hints.set_visibility(has_expert(game.described))
        self._transcript.begin(first.observation)
        self._place.set_visibility(True)
        self._show(game)

    def add_turn(self, game: Game) -> None:
        """Show what the game's last turn led to."""
        turn = game.turns[-1]
        self._transcript.add(
            ShownTurn(
                index=len(game.turns) - 1,
                action=turn.action,
                observation=turn.result.observation,
                reward=turn.result.reward,
                valid=understood(turn),
            )
        )
        if game.over:
            end = ending(game)
            self._transcript.close(end.title, _TONES[end.outcome])
        self._show(game)

    def hide(self) -> None:
        """Show no game."""
        self._place.set_visibility(False)

    def refuse(self, reason: str) -> None:
        """Say what is wrong with what was typed; nothing for an empty ``reason``."""
        self._refused.set_text(reason)
        self._refused.set_visibility(bool(reason))

    def wait(self, waiting: bool) -> None:
        """Show that the env server is at work."""
        self._place.props(f"aria-busy={str(waiting).lower()}")
        self._place.classes(add="play-busy" if waiting else None, remove=None if waiting else "play-busy")

    def _draw_doing(self) -> None:
        with ui.element("div").classes("play-fields"):
            self._blanks = ui.element("div")
            with ui.element("div").classes("play-field"):
                self._field = ui.input("Action", on_change=self._narrow)
                self._field.props(f"{_FIELD} maxlength={MAX_ACTION_CHARS + 1}")  # one too many is said, not cut off
                self._field.on("keydown.enter", self._entered, js_handler=_ENTERED)
                ui.button("Do it", on_click=lambda: self._act(self._field.value or ""), color=None).props(
                    "outline no-caps"
                ).classes("action")
        self._refused = written("p", "", "play-refused").props('role="alert"')
        self._format = written("p", "", "muted small")
        with ui.element("div").classes("play-hint") as self._hints:
            ui.button("Show the expert's hint", on_click=self._show_hint, color=None).props(
                "outline dense no-caps"
            ).classes("action")
            self._follow = ui.button("Do as the expert does", color=None).props("outline dense no-caps")
            self._follow.classes("action").on_click(lambda: self._act(self._experts))
            self._hint = written("span", "").props('role="status"')
        self._nothing = written(
            "p", "None of the offered actions has these words; here are all of them.", "muted small"
        )
        self._choice = ui.element("div").classes("play-choice")

    def _show(self, game: Game) -> None:
        can = offered(game.now)
        self.refuse("")
        self._field.set_value("")
        narrows = " Typing narrows the choice below." if can.groups else ""
        self._format.set_text(f"One line: {game.described.action_format}.{narrows}")
        for place in (self._standing, self._seen, self._end, self._blanks, self._choice):
            place.clear()
        with self._standing:
            facts(game.standing)
        with self._seen:
            self._draw_seen(game, can)
        self._doing.set_visibility(not game.over)
        if game.over:
            with self._end:
                _draw_ending(ending(game))
        else:
            self._experts = game.hint or ""
            self._follow.set_enabled(bool(self._experts))
            self._hint.set_text(f"It would: {self._experts}" if self._experts else "It has nothing left to do here.")
            self._hint.set_visibility(False)
            with self._blanks:
                for blank in can.blanks:
                    self._draw_blank(blank)
            with self._choice:
                self._groups = [self._draw_group(group) for group in can.groups]
            self._narrow()
        self._place.client.run_javascript(_READY)

    def _draw_seen(self, game: Game, can: Offered) -> None:
        if can.page is None:
            written("pre", game.now.observation, "play-text")
            return
        for line in can.page:
            self._draw_line(line, can.clicks)
        with ui.element("details").classes("play-raw"):
            written("summary", "As a policy reads it", "muted small")
            text_block(game.now.observation, "The observation as text")

    def _draw_line(self, line: Line, clicks: list[str]) -> None:
        match line:
            case Buttons(buttons):
                with ui.element("div").classes("play-buttons"):
                    for button in buttons:
                        self._draw_click(button, clicks)
            case Listed(button, title, price):
                with ui.element("div").classes("play-listed"):
                    self._draw_click(button, clicks)
                    written("span", price, "numbers play-price")
                    written("span", title)
            case text:
                written("p", text)

    def _draw_click(self, button: Clickable, clicks: list[str]) -> None:
        if button.number is None:
            written("span", button.label, "muted")
            return
        drawn = self._button(button.label, clicks[button.number - 1])
        if button.clicked:
            drawn.classes("chosen").props("aria-pressed=true")

    def _draw_blank(self, blank: Blank) -> None:
        async def entered(event: GenericEventArguments) -> None:
            await fill(str(event.args))

        async def fill(words: str) -> None:
            if words.strip():
                await self._act(blank.filled(words.strip()))

        head = blank.before.rstrip("[ ").capitalize()
        with ui.element("div").classes("play-field"):
            words = ui.input(f"{head}: {blank.name}").props(f"{_FIELD} maxlength={MAX_ACTION_CHARS}")
            words.on("keydown.enter", entered, js_handler=_ENTERED)
            ui.button(head, on_click=lambda: fill(words.value or ""), color=None).props("outline no-caps").classes(
                "action"
            )

    def _draw_group(self, group: ActionGroup) -> _Group:
        with ui.element("div").classes("play-group").props('role="group"') as place:
            place.props["aria-label"] = group.name or "other actions"
            if group.name:
                written("span", group.name, "muted small play-group-name")
            drawn = _Group(place)
            for text, action in group.actions:
                drawn.buttons[action] = self._button(text, action)
        return drawn

    def _button(self, text: str, action: str) -> TextElement:
        button = written("button", text, "play-action").props('type="button"')
        if text.lower() not in (action, action.partition("[")[2].rstrip("]")):
            button.props["aria-label"] = action
        button.on("click", lambda: self._act(action))
        return button

    def _show_hint(self) -> None:
        self._hint.set_visibility(True)

    async def _entered(self, event: GenericEventArguments) -> None:
        await self._act(str(event.args))

    def _narrow(self, _: ValueChangeEventArguments[str | None] | None = None) -> None:
        """Leave the buttons that have what is typed; all of them where none has."""
        typed = self._field.value or ""
        some = any(matches(action, typed) for group in self._groups for action in group.buttons)
        for group in self._groups:
            shown = [action for action in group.buttons if not some or matches(action, typed)]
            for action, button in group.buttons.items():
                button.set_visibility(action in shown)
            group.place.set_visibility(bool(shown))
        self._nothing.set_visibility(bool(self._groups) and not some)


_FIELD = 'outlined dense autocomplete=off autocapitalize=off spellcheck=false enterkeyhint=go input-class="mono"'


def _draw_ending(end: Ending) -> None:
    notice(_TONES[end.outcome], end.title, end.detail)
    if end.parts:
        facts(end.parts)
