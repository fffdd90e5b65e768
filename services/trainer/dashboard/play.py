"""Playing an environment by hand, as a policy would: a task, its actions, and the expert's hints."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from nicegui import background_tasks, ui

from services.trainer.dashboard.credit_parts import choice
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import Leaving, heading, notice, written
from services.trainer.dashboard.play_data import (
    AddressError,
    Choice,
    Game,
    another,
    chosen_by,
    filled_splits,
    named,
    usual_split,
)
from services.trainer.dashboard.play_servers import EnvServerError, EnvServers, Offer, PlayedSession
from services.trainer.dashboard.play_table import Table
from services.trainer.dashboard.play_troubles import Trouble, WayOut, no_tasks, trouble
from shared.schemas.environment import check_action


async def build(view: View) -> None:
    """The choice of a task, and the game once there is one."""
    heading("Play", "Act in an environment yourself, over the same REST API as a policy.")
    player = _Player(EnvServers(view.service.servers.client, view.service.settings.env_urls))
    await player.start(view.query)


class _Player:
    """The page of one browser."""

    def __init__(self, servers: EnvServers) -> None:
        self._servers = servers
        self._offers: dict[str, Offer] = {}
        self._chosen: Choice | None = None
        """The task that is played, or was tried last."""
        self._game: Game | None = None
        self._session: PlayedSession | None = None
        self._form_is_for = ("", "")
        """The environment and the split that the form's fields are about."""
        self._busy = False
        self._left = False
        with ui.element("div").classes("card controls play-controls") as self._form:
            self._environment = choice("Environment", self._choose_environment)
            self._split = choice("Split", self._choose_split)
            self._task = ui.input("Task").props("outlined dense autocomplete=off").classes("credit-choice")
            self._task.on("keydown.enter", self._open_named)
            with ui.element("div").classes("play-open"):
                for text, do in (("Play", self._open_named), ("Another task", self._open_another)):
                    ui.button(text, on_click=do, color=None).props("outline no-caps").classes("action")
        self._trouble = ui.element("div").classes("play-trouble")
        with ui.element("div") as self._nothing:
            notice("quiet", "No task is open", "Play opens the one that is named, Another task any one of the split.")
        self._table = Table(self._act, self._start_over)
        Leaving(self._leave)

    async def start(self, query: Mapping[str, str]) -> None:
        """Offer what there is, and open the task that the address names once the page is there."""
        self._form.set_visibility(False)
        self._nothing.set_visibility(False)
        try:
            self._offers = await self._servers.offers()
        except EnvServerError as error:
            self._say(trouble(error), lambda: self.start(query))
            return
        self._say(None)
        self._form.set_visibility(True)
        try:
            wanted = chosen_by(query, {name: offer.description for name, offer in self._offers.items()})
        except AddressError as error:
            self._say(Trouble("The address names no task", str(error)))
            wanted = Choice(next(iter(self._offers), ""))
        self._offer(wanted.environment, wanted.split)
        self._environment.set_options({name: name for name in self._offers}, value=wanted.environment or None)
        self._task.set_value(wanted.task)
        if wanted.names_a_task:
            background_tasks.create(self._open(wanted), name="open a task to play", context=self._form)
        else:
            self._nothing.set_visibility(True)

    async def _choose_environment(self, name: str) -> None:
        if name != self._form_is_for[0]:
            self._offer(name, "")

    async def _choose_split(self, split: str) -> None:
        if split != self._form_is_for[1]:
            self._offer(self._form_is_for[0], split)

    def _offer(self, environment: str, split: str) -> None:
        """Have the form offer the environment's splits, and the tasks of one: of the usual one for an empty name."""
        if environment not in self._offers:
            return
        described = self._offers[environment].description
        splits = filled_splits(described)
        split = split or usual_split(described)
        self._form_is_for = (environment, split)
        if not splits:
            self._say(no_tasks(environment))
        options = {name: f"{name} ({size} task{'' if size == 1 else 's'})" for name, size in splits.items()}
        self._split.set_options(options, value=split or None)
        self._task.set_label(f"Task: 0 to {splits[split] - 1}, or its id" if splits else "Task")
        self._task.set_value("")

    async def _open_named(self) -> None:
        environment, split = self._form_is_for
        wanted = named(environment, split, self._task.value or "")
        await (self._open(wanted) if wanted.names_a_task else self._open_another())

    async def _open_another(self) -> None:
        environment, split = self._form_is_for
        if split:
            before = self._chosen.index if self._chosen is not None else None
            await self._open(another(self._offers[environment].description, split, before))

    async def _start_over(self) -> None:
        if self._chosen is not None:
            await self._open(self._chosen)

    async def _open(self, wanted: Choice) -> None:
        """Give up what is played, and begin with that task."""
        if self._busy:
            return
        offer = self._offers[wanted.environment]
        self._nothing.set_visibility(False)
        self._chosen = wanted
        self._task.set_value(wanted.task)
        with self._working():
            if self._session is not None:
                await self._session.close()
            self._session, self._game = None, None
            try:
                session = await self._servers.open(offer, wanted.request(offer.description))
            except EnvServerError as error:
                if not self._left:
                    self._table.hide()
                    self._say(trouble(error), lambda: self._open(wanted))
                return
            if self._left:
                await session.close()
                return
            self._session, self._game = session, Game(offer.description, session.first)
            self._say(None)
            self._table.begin(self._game, session.url)
            with self._form:
                ui.navigate.history.replace(wanted.address())

    async def _act(self, action: str) -> None:
        """Take a step, however its action was given."""
        game, session = self._game, self._session
        if game is None or session is None or game.over or self._busy or not action.strip():
            return
        try:
            check_action(action)
        except ValueError as error:
            self._table.refuse(f"Not sent: {error}.")
            return
        with self._working():
            try:
                turn = await session.step(action, game.now.step_index)
            except EnvServerError as error:
                if not self._left:
                    self._say(trouble(error), lambda: self._act(action))
                return
            if self._left:
                return
            game.turns.append(turn)
            self._say(None)
            self._table.add_turn(game)
            if turn.action != action:
                self._table.refuse(f"Not sent: {turn.action!r}, which got no answer before, had been taken after all.")
            if game.over:
                await session.close()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """One thing at a time: what is pressed meanwhile does not count."""
        self._busy = True
        self._table.wait(True)
        try:
            yield
        finally:
            self._busy = False
            if not self._left:
                self._table.wait(False)

    def _say(self, what: Trouble | None, again: Callable[[], Awaitable[None]] | None = None) -> None:
        """Show what went wrong, with the way out of it; nothing for None."""
        self._trouble.clear()
        if what is None:
            return
        ways = {WayOut.AGAIN: again, WayOut.ANEW: self._start_over}
        with self._trouble, ui.element("div").classes("notice bad").props('role="alert"'):
            written("div", what.title, "notice-title")
            written("div", what.detail, "notice-detail")
            if what.remedy:
                written("div", what.remedy, "mono remedy")
            if what.way_out is not None and (then := ways[what.way_out]) is not None:
                ui.button(what.way_out.value, on_click=lambda: then(), color=None).props(
                    "outline dense no-caps"
                ).classes("play-way-out")

    def _leave(self) -> None:
        self._left = True
        if self._session is not None:
            background_tasks.create(self._session.close(), name="close a played session")


PAGE = Page("/play", "Play", build, menu="Play")
