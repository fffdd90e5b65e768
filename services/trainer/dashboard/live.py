"""Episodes while they are played: a list of them, and one of them turn by turn."""

import time
from urllib.parse import quote, urlencode

from nicegui import background_tasks, ui

from services.trainer.dashboard import live_data
from services.trainer.dashboard.episode_parts import Transcript
from services.trainer.dashboard.health_sources import OrchestratorReport, orchestrators
from services.trainer.dashboard.live_list import LiveList
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import Leaving, Part, chip, heading, keep_up, notice, state_chip, written
from shared.buffer import TurnReader
from shared.live_episodes import LiveEpisode, LiveEpisodes
from shared.schemas.job import JobState

REFRESH_S = 0.4
_LOOK_EVERY_S = 2.0
"""How often the job's state is looked at, and the orchestrators are asked while no episode is played."""

_LINGER_S = 4.0
"""How long an episode stays in view after its end before a newer one is followed."""


async def build(view: View) -> None:
    """Watch the job that the address names, else the one at work."""
    page = _LivePage(view)
    page.place()
    await page.refresh()
    keep_up(REFRESH_S, page.refresh)
    keep_up(_LOOK_EVERY_S, page.ask_orchestrators)


class _LivePage:
    """The page of one browser. While it is open, the job counts as watched."""

    def __init__(self, view: View) -> None:
        self._service = view.service
        self._asked = view.query.get("job")
        self._job: str | None = None
        self._state = JobState.QUEUED
        self._look_at = 0.0
        self._reader: TurnReader | None = None
        self._lapses = 0
        self._live = LiveEpisodes(live_data.KEEP_ENDED)
        self._reports: list[OrchestratorReport] | None = None
        self._chosen: LiveEpisode | None = None
        self._drawn = 0
        """Turns of the chosen episode that are shown."""
        self._closed_at: float | None = None
        """When its end was shown."""

    def place(self) -> None:
        """Put the frames onto the page."""
        heading("Live", "Episodes while they are played. They are told only while somebody watches.")
        with ui.element("div").classes("card controls live-controls"):
            self._job_line = Part(ui.element("div").classes("live-job"))
            self._follow = ui.switch("Follow the newest episode", value=True).props("dense")
            self._paused = ui.switch("Pause", value=False).props("dense")
        self._standing = Part(ui.element("div").classes("live-standing"))
        with ui.element("div").classes("live") as self._columns:
            with ui.element("section").classes("card live-episodes").props('aria-label="Running episodes"'):
                self._list = LiveList(self._choose)
            with ui.element("section").classes("card live-episode").props('aria-label="The chosen episode"'):
                self._head = Part(ui.element("div").classes("live-head"))
                self._transcript = Transcript("The episode's turns")
        Leaving(self._leave)

    async def refresh(self) -> None:
        """Take what was told since, and draw it unless the page is paused."""
        now = time.monotonic()
        if now >= self._look_at:
            await self._look()
            self._look_at = now + _LOOK_EVERY_S
        if self._reader is not None:
            told = await self._reader.read()
            if self._reader.lapses != self._lapses:
                self._lapses = self._reader.lapses
                self._begin_anew()
            for one in told:
                self._live.take(one.record)
        if self._state.over:
            self._live.break_off(live_data.JOB_OVER)
        if not self._paused.value:
            self._draw(now)

    async def ask_orchestrators(self) -> None:
        """Find out why nothing is played, where that is so."""
        idle = self._job is not None and not self._state.over and live_data.newest(self._live) is None
        self._reports = await orchestrators(self._service) if idle else None

    async def _look(self) -> None:
        """Which job, and how it stands. A page that was told no job goes on to whichever is at work."""
        if self._asked is None:
            active = await self._service.store.active()
        elif self._job is None:
            active = (await self._service.job(self._asked)).id
        else:
            active = self._asked
        if active is not None:
            self._take_up(active)
        if self._job is not None:
            self._state = await self._service.store.state(self._job) or JobState.CANCELLED

    def _take_up(self, job: str) -> None:
        if job == self._job:
            return
        self._leave()
        self._job, self._reader, self._lapses = job, TurnReader(self._service.settings.redis_url, job), 0
        self._reports = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._live, self._chosen = LiveEpisodes(live_data.KEEP_ENDED), None

    def _leave(self) -> None:
        if self._reader is not None:
            background_tasks.create(self._reader.close(), name="close a watcher")
            self._reader = None

    def _choose(self, episode: str) -> None:
        """A person wants to see that one, to its end and beyond."""
        chosen = self._live.episodes.get(episode)
        if chosen is not None:
            self._follow.set_value(False)
            self._show(chosen)
            self._draw(time.monotonic())

    def _draw(self, now: float) -> None:
        self._follow_newest(now)
        standing = self._why_still()
        self._job_line.show((self._job, self._state), self._draw_job)
        self._standing.show(standing, lambda: _draw_standing(standing))
        self._columns.set_visibility(bool(self._live.episodes) or self._chosen is not None)
        chosen = self._chosen
        self._list.show(live_data.lines(self._live), None if chosen is None else chosen.id)
        if chosen is not None:
            self._draw_chosen(chosen, now)

    def _why_still(self) -> live_data.Standing | None:
        if self._job is None:
            detail = "Submit one: gagpo job submit configs/alfworld-cpu.toml. Its episodes appear here by themselves."
            return live_data.Standing("quiet", "No job is running", detail)
        return live_data.standing(self._job, self._state, self._live, self._reports)

    def _follow_newest(self, now: float) -> None:
        """Stay with an episode to its end and a little longer, then go to the newest."""
        chosen, newest = self._chosen, live_data.newest(self._live)
        if newest is None or newest is chosen:
            return
        lingered = self._closed_at is not None and now >= self._closed_at + _LINGER_S
        if chosen is None or (self._follow.value and lingered):
            self._show(newest)

    def _show(self, episode: LiveEpisode) -> None:
        self._chosen, self._drawn, self._closed_at = episode, 0, None
        self._transcript.begin(episode.began.observation)

    def _draw_chosen(self, episode: LiveEpisode, now: float) -> None:
        ended = episode.ended
        self._head.show((episode.id, ended), lambda: _draw_head(episode))
        new = episode.turns[self._drawn :]
        for turn in new:
            self._transcript.add(live_data.shown(turn))
        self._drawn += len(new)
        closing = ended is not None and self._closed_at is None
        if ended is not None and closing:
            self._closed_at = now
            self._transcript.close(live_data.last_words(ended), live_data.ending(ended)[1])
        if new or closing:
            self._transcript.show_newest()

    def _draw_job(self) -> None:
        if self._job is not None:
            ui.link(self._job, f"/runs/{quote(self._job)}").classes("run-link")
            state_chip(self._state)


def _draw_standing(standing: live_data.Standing | None) -> None:
    if standing is not None:
        notice(standing.tone, standing.title, standing.detail)


def _draw_head(episode: LiveEpisode) -> None:
    began = episode.began
    line = live_data.ending(episode.ended) if episode.ended is not None else ("playing", "busy")
    with ui.element("div").classes("live-title-line"):
        written("h2", live_data.title(began))
        chip(line[0], line[1])
    written("p", f"{live_data.place(began)} · {began.task_id}", "muted small numbers")
    if began.task != began.observation:
        written("p", began.task, "live-task")


def address(job: str) -> str:
    """Of the page, for one job."""
    return "/live?" + urlencode({"job": job})


PAGE = Page("/live", "Live", build, menu="Live")
