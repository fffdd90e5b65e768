"""The credit viewer: where the credit of a training step went, and why."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from nicegui import ui

from services.trainer.dashboard.credit_compare import advantages_by, agreement, others_than, title_of
from services.trainer.dashboard.credit_data import (
    EpisodeFilter,
    OpenedGroup,
    Spot,
    StepFilter,
    grid,
    group_csv,
    open_group,
    other_situations,
    outcome,
    place_of,
)
from services.trainer.dashboard.credit_explained import explained
from services.trainer.dashboard.credit_grid import CreditGrid, Shown
from services.trainer.dashboard.credit_parts import agreement_line, choice, group_title, legend, offer, scale, summary
from services.trainer.dashboard.credit_step import StepView, draw_step
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import Tone, card, heading, keep_up, notice
from services.trainer.dashboard.run_catalogue import Run, all_runs
from services.trainer.server.credit_answers import cell_detail, step_credit
from services.trainer.server.credit_store import CreditStore
from shared.credit_record import CreditRecordError, Floats, StoredRecord
from shared.recipe import Recipe, RecipeError, load_recipe

REFRESH_S = 4.0
"""How often new training steps are looked for."""

RECORDED = "nothing"
"""No other algorithm to compare with."""


@dataclass(slots=True)
class _Chosen:
    """What is looked at, and what was read for that."""

    run: Run
    recipe: Recipe
    record: StoredRecord
    opened: OpenedGroup
    compared: dict[str, Floats] = field(default_factory=dict)
    """Algorithm → Â, shape (S,)."""


async def build(view: View) -> None:
    """The choices, the picture of a group, and the step that is open."""
    heading("Credit", "Where each step's advantage came from. Choose a cell to see why its action was credited.")
    runs = [run for run in await all_runs(view.service) if await asyncio.to_thread(run.files.credit_steps)]
    if not runs:
        detail = "A run records it from its first training step on, unless its recipe has tracking.credit_steps = 0."
        notice("quiet", "No credit recorded yet", detail)
        return
    viewer = _Viewer(view.service.credit, {run.name: run for run in runs})
    await viewer.start(view.query)
    keep_up(REFRESH_S, viewer.look_for_steps)


class _Viewer:
    """The page of one browser."""

    def __init__(self, store: CreditStore, runs: Mapping[str, Run]) -> None:
        self._store = store
        self._runs = runs
        self._shown = Shown()
        self._grids: list[CreditGrid] = []
        self._chosen: _Chosen | None = None
        self._method = RECORDED
        with ui.element("div").classes("card controls credit-controls"):
            self._run = choice("Run", self._choose_run)
            self._step = choice("Training step", self._choose_step)
            self._group = choice("Group", self._choose_group).classes("credit-wide")
            self._episodes = choice("Episodes", self._filter)
            self._steps = choice("Steps", self._filter)
            self._compare = choice("Compare with", self._choose_method)
        self._picture = ui.element("div").classes("credit-picture")
        self._panel = ui.element("section").classes("credit-panel").props('aria-label="The open step"')
        self._panel.on("keydown.escape", self._close)

    async def start(self, query: Mapping[str, str]) -> None:
        """Open what the address names, as far as it is there, else the latest training step."""
        self._run.set_options({name: name for name in self._runs}, value=None)
        self._episodes.set_options({one.value: one.value for one in EpisodeFilter}, value=self._shown.episodes.value)
        self._steps.set_options({one.value: one.value for one in StepFilter}, value=self._shown.steps.value)
        asked = query.get("run", "")
        name = asked if asked in self._runs else next(iter(self._runs))
        await self._open_run(name, _number(query.get("step")), _number(query.get("group")), _spot(query.get("at", "")))

    async def look_for_steps(self) -> None:
        """Offer training steps that are new, without changing what is shown."""
        if self._chosen is not None:
            step = self._chosen.record.step
            offer(self._step, await self._steps_offered(self._chosen.run, step), step)

    async def _choose_run(self, name: str) -> None:
        if self._chosen is None or name != self._chosen.run.name:
            await self._open_run(name)

    async def _choose_step(self, step: int) -> None:
        chosen = self._chosen
        if chosen is not None and step != chosen.record.step:
            await self._open_step(chosen.run, chosen.recipe, step)

    async def _choose_group(self, index: int) -> None:
        chosen = self._chosen
        if chosen is not None and index != chosen.opened.group.index:
            await self._open_group(chosen.run, chosen.recipe, chosen.record, index)

    async def _choose_method(self, method: str) -> None:
        if method != self._method:
            self._method = method
            await self._draw()

    async def _filter(self, _: str) -> None:
        if self._steps.value is not None and self._episodes.value is not None:
            self._shown.episodes = EpisodeFilter(self._episodes.value)
            self._shown.steps = StepFilter(self._steps.value)
            for one in self._grids:
                one.filter(self._shown)

    async def _open_run(
        self, name: str, step: int | None = None, index: int | None = None, at: Spot | None = None
    ) -> None:
        run = self._runs[name]
        try:
            recipe = await asyncio.to_thread(load_recipe, run.files.recipe)
        except (RecipeError, OSError) as error:
            self._say("bad", "The run's recipe cannot be read", str(error))
            return
        steps = await asyncio.to_thread(run.files.credit_steps)
        if steps:
            await self._open_step(run, recipe, step if step in steps else steps[-1], index, at)
        else:
            self._say("quiet", "No credit is kept any more", f"{run.files.credit_folder} is empty.")

    async def _open_step(
        self, run: Run, recipe: Recipe, step: int, index: int | None = None, at: Spot | None = None
    ) -> None:
        try:
            record = await asyncio.to_thread(self._store.record, run.files, step)
        except FileNotFoundError:
            self._say("warn", f"The credit of step {step} is gone", "The run keeps its latest: choose a later one.")
        except CreditRecordError as error:
            self._say("bad", "The credit record cannot be read", str(error))
        else:
            if record.groups:
                await self._open_group(run, recipe, record, index, at)
            else:
                self._say("quiet", "No groups", f"Training step {step} had none.")

    async def _open_group(
        self, run: Run, recipe: Recipe, record: StoredRecord, index: int | None, at: Spot | None = None
    ) -> None:
        opened = await asyncio.to_thread(open_group, self._store, record, place_of(record, index))
        self._chosen = _Chosen(run, recipe, record, opened)
        self._shown.at = at if at is not None and opened.places.row(at) is not None else None
        methods = [RECORDED, *others_than(record.algorithm)]
        if self._method not in methods:
            self._method = RECORDED
        groups = {group.index: group_title(group) for group in step_credit(record).groups}
        self._run.set_value(run.name)
        offer(self._step, await self._steps_offered(run, record.step), record.step)
        offer(self._group, groups, opened.group.index)
        offer(self._compare, {method: title_of(method) for method in methods}, self._method)
        await self._draw()

    async def _steps_offered(self, run: Run, shown: int) -> dict[int, str]:
        steps = await asyncio.to_thread(run.files.credit_steps)
        return {step: str(step) for step in sorted({*steps, shown}, reverse=True)}

    async def _draw(self) -> None:
        chosen = self._chosen
        if chosen is None:
            return
        chosen.compared = {}
        if self._method != RECORDED:
            chosen.compared[self._method] = await asyncio.to_thread(_advantages_by, self._method, chosen)
        self._picture.clear()
        self._grids = []
        with self._picture:
            own = title_of(chosen.record.algorithm)
            self._draw_grid(chosen, f"{own}, as recorded", chosen.opened.credit.advantages)
            for method, advantages in chosen.compared.items():
                self._draw_grid(chosen, f"{title_of(method)} on the same episodes", advantages)
            legend()
        await self._draw_panel()

    def _draw_grid(self, chosen: _Chosen, title: str, advantages: Floats) -> None:
        picture, recorded = grid(chosen.opened, advantages), chosen.opened.credit.advantages
        with card(title) as element:
            element.classes("credit-card")
            if advantages is recorded:
                summary(chosen.opened.picture.summary, chosen.record.version, lambda: _download(chosen))
            else:
                agreement_line(agreement(recorded, advantages))
            self._grids.append(CreditGrid(picture, f"Advantages by {title}", self._shown, self._open, self._close))
            scale(picture.limit)

    async def _open(self, spot: Spot) -> None:
        self._shown.at = spot
        for one in self._grids:
            one.show_open(spot)
        await self._draw_panel()

    async def _go_to(self, spot: Spot) -> None:
        await self._open(spot)
        self._grids[0].focus_on(spot)

    def _close(self) -> None:
        last, self._shown.at = self._shown.at, None
        for one in self._grids:
            one.show_open(None)
        if last is not None and self._grids:
            self._grids[0].focus_on(last)
        self._panel.clear()
        self._panel.classes(remove="card")
        self._remember()

    async def _draw_panel(self) -> None:
        chosen, spot = self._chosen, self._shown.at
        view = None
        if chosen is not None and spot is not None:
            view = await asyncio.to_thread(_step_view, self._store, chosen, spot)
        if spot != self._shown.at:
            return  # another one was opened meanwhile
        self._remember()
        self._panel.clear()
        if view is None:
            self._panel.classes(remove="card")
            return
        self._panel.classes("card")
        with self._panel:
            draw_step(view, self._go_to, self._close)

    def _say(self, tone: Tone, title: str, detail: str) -> None:
        """Show that instead of a group."""
        self._chosen, self._grids = None, []
        self._picture.clear()
        self._panel.clear()
        self._panel.classes(remove="card")
        with self._picture:
            notice(tone, title, detail)

    def _remember(self) -> None:
        """Have the address name what is shown, for coming back and for passing on."""
        if self._chosen is not None:
            index = self._chosen.opened.group.index
            query = {"run": self._chosen.run.name, "step": str(self._chosen.record.step), "group": str(index)}
            if (spot := self._shown.at) is not None:
                query["at"] = str(spot)
            ui.navigate.history.replace("/credit?" + urlencode(query))


def _advantages_by(method: str, chosen: _Chosen) -> Floats:
    return advantages_by(method, chosen.record, chosen.opened.place, chosen.recipe)


def _step_view(store: CreditStore, chosen: _Chosen, spot: Spot) -> StepView | None:
    opened, row = chosen.opened, chosen.opened.places.row(spot)
    if row is None:
        return None
    tokenizer = store.tokenizer(chosen.recipe.model.path, chosen.run.files)
    return StepView(
        detail=cell_detail(chosen.record, opened.place, store.group, (spot.episode, spot.turn), tokenizer),
        outcome=outcome(opened.picture.rows[spot.episode]),
        sentences=explained(opened, row, chosen.recipe.algorithm),
        other_situations=other_situations(opened, row),
        compared=[(title_of(name), float(advantages[row])) for name, advantages in chosen.compared.items()],
    )


def _download(chosen: _Chosen) -> None:
    name = f"{chosen.run.name}-step-{chosen.record.step}-group-{chosen.opened.group.index}.csv"
    others = {f"advantages_{method}": advantages for method, advantages in chosen.compared.items()}
    ui.download.content(group_csv(chosen.opened, others), name)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _spot(text: str) -> Spot | None:
    first, _, second = text.partition(".")
    episode, turn = _number(first), _number(second)
    return None if episode is None or turn is None else Spot(episode, turn)


PAGE = Page("/credit", "Credit", build, menu="Credit")
