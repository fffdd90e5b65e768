"""The blocking job client."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from pydantic import JsonValue

from gagpo.client import calls
from gagpo.client.calls import Answer, Call, When
from gagpo.client.download import Archive, Progress, download_archive, ignore_progress
from gagpo.client.errors import unreachable
from gagpo.client.following import (
    READ_TIMEOUT_S,
    TIMEOUT_S,
    EventStream,
    Item,
    LogStream,
    Patience,
    Reconnecting,
    Stream,
    TurnStream,
    events_in,
)
from gagpo.client.server import find_server
from shared.schemas.credit import CellDetail, GroupCredit, StepCredit
from shared.schemas.evaluation import EvaluationReport
from shared.schemas.job import Checkpoint, Job, JobDetail, JobEvent
from shared.schemas.turns import LiveRecord


class Client:
    """Runs training jobs on a remote trainer. Every method raises `JobError` for what cannot be done.

    `AsyncClient` has the same methods for asyncio.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience: Patience | None = None,
    ) -> None:
        """Opens no connection yet.

        ``server`` is a URL, by default ``GAGPO_SERVER`` or ``http://127.0.0.1:8000``; ``token`` by default
        ``GAGPO_TOKEN_JOBS`` or ``GAGPO_TOKEN``. ``timeout_s`` bounds every wait for the server but those of streams,
        whose lost connections are dealt with as ``patience`` says. Raises `ValueError` for a URL that is none.
        """
        self.server = find_server(server, token)
        self._patience = patience or Patience()
        self._http = httpx.Client(base_url=self.server.url, headers=self.server.headers, timeout=timeout_s)
        self._stream_timeout = httpx.Timeout(timeout_s, read=READ_TIMEOUT_S)

    def __enter__(self) -> Self:
        """The connections are closed at the end of the ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(self, recipe: dict[str, JsonValue], job: str | None = None) -> Job:
        """Queue a recipe, as its TOML reads; ``job`` is the id to give it.

        The same id and recipe once more give the job there is.
        """
        return self._ask(calls.submit(recipe, job))

    def list(self) -> Sequence[Job]:
        """Every job, the newest first."""
        return self._ask(calls.listing()).jobs

    def get(self, job: str) -> JobDetail:
        """One job, with its recipe and its latest metrics."""
        return self._ask(calls.detail(job))

    def cancel(self, job: str) -> Job:
        """Stop a job, or take it out of the queue; what it has learned so far is kept."""
        return self._ask(calls.cancel(job))

    def resume(self, job: str) -> Job:
        """Queue a failed or cancelled job again; it goes on from its last checkpoint."""
        return self._ask(calls.resume(job))

    def delete(self, job: str) -> None:
        """Forget a job that is over, and delete its files on the server, checkpoints included."""
        self._ask(calls.delete(job))

    def checkpoints(self, job: str) -> Sequence[Checkpoint]:
        """A job's checkpoints, the newest last."""
        return self._ask(calls.checkpoints(job)).checkpoints

    def evaluation(self, job: str, when: When) -> EvaluationReport:
        """How the policy did on held-out tasks before or after training: the figures, and every episode."""
        return self._ask(calls.evaluation(job, when))

    def credit_steps(self, job: str) -> Sequence[int]:
        """The training steps whose credit the server keeps, the newest last."""
        return self._ask(calls.credit_steps(job)).steps

    def credit(self, job: str, step: int) -> StepCredit:
        """The groups of a training step, and in sum where its credit went."""
        return self._ask(calls.credit(job, step))

    def credit_group(self, job: str, step: int, group: int) -> GroupCredit:
        """A group of a training step: its episodes, and the credit of their every step."""
        return self._ask(calls.credit_group(job, step, group))

    def credit_cell(self, job: str, step: int, group: int, episode: int, turn: int) -> CellDetail:
        """One step of an episode: prompt, answer, credit, and the steps that shared its state."""
        return self._ask(calls.credit_cell(job, step, group, episode, turn))

    def watch(self, job: str, after: str | None = None) -> Iterator[JobEvent]:
        """A job's events as they happen, until the job is over; lost connections are made again, without a gap.

        Begins behind the event ``after``, or with the oldest that the server keeps.
        """
        return self._follow(job, EventStream(job, after))

    def follow_turns(self, job: str) -> Iterator[LiveRecord]:
        """Running episodes turn by turn, until the job is over; lost connections are made again.

        Begins with what is being played now, each episode from its first turn. `shared.live_episodes.LiveEpisodes` adds
        the records up to episodes.
        """
        return self._follow(job, TurnStream(job))

    def logs(self, job: str, tail: int = 200) -> str:
        """The last lines of what the job's training processes have written."""
        return self._ask(calls.logs(job, tail))

    def follow_logs(self, job: str, tail: int = 200) -> Iterator[str]:
        """The last lines, and then each as it is written, until the job is over."""
        for lines in self._follow(job, LogStream(job, tail)):
            yield from lines

    def download(
        self,
        job: str,
        into: Path | None = None,
        version: int | None = None,
        trainer_state: bool = True,
        progress: Progress = ignore_progress,
    ) -> Path:
        """Fetch a checkpoint, the newest unless ``version`` says which; the folder it lies in, ``into``.

        The folder must not exist and appears once it is whole, ``<job>-v<version>`` unless named. Lost connections are
        made again. ``trainer_state`` is what training on needs, twice the model's size; without it, the folder is a
        Hugging Face model. ``progress`` is told the bytes received, and of how many.
        """
        chosen = calls.choose(job, self.checkpoints(job), version)
        folder = into or calls.checkpoint_folder(job, chosen.version)
        line = Reconnecting(self.server.url, self._patience)
        archive = Archive(
            calls.archive_path(job, chosen.version, trainer_state), chosen.bytes if trainer_state else None, folder
        )
        download_archive(self._http, archive, line, progress, threading.Event())
        return folder

    def _follow(self, job: str, stream: Stream[Item]) -> Iterator[Item]:
        """What a stream says until its job is over, over as many connections as it takes."""
        over = calls.detail(job)
        line = Reconnecting(self.server.url, self._patience)
        while True:
            try:
                with self._http.stream(
                    "GET", stream.path, headers=stream.headers, timeout=self._stream_timeout
                ) as response:
                    if not response.is_success:
                        response.read()
                    if line.answered(response):
                        for sse in events_in(response).iter_sse():
                            if (item := stream.take(sse)) is not None:
                                line.progress()
                                yield item
                response = self._http.send(over.request(self._http))
                if not line.answered(response):
                    wait_s = line.lost()
                elif over.read(response).state.over:
                    return
                else:
                    wait_s = line.ended()
            except httpx.TransportError as error:
                wait_s = line.lost(error)
            time.sleep(wait_s)

    def _ask(self, call: Call[Answer]) -> Answer:
        try:
            return self._exchange(call)
        except httpx.TransportError as error:
            raise unreachable(self.server.url, error) from error

    def _exchange(self, call: Call[Answer]) -> Answer:
        return call.read(self._http.send(call.request(self._http)))
