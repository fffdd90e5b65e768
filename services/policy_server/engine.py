"""The engine that the app owns: vLLM's AsyncLLM and vLLM's own routes, started in the background and watched."""

import asyncio
import contextlib
import multiprocessing
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.policy_server.launch import prepare_environment, vllm_arguments
from services.policy_server.settings import PolicySettings
from shared.problems import ProblemError

if TYPE_CHECKING:
    from argparse import Namespace

    from vllm.v1.engine.async_llm import AsyncLLM

T = TypeVar("T")

STOP_TIMEOUT_S = 2
"""Then the engine's process is killed: it holds nothing that is not in a file."""


class Phase(StrEnum):
    """Where the engine is in its life."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass
class Running:
    """A started engine."""

    client: "AsyncLLM"
    openai: FastAPI
    """vLLM's own app: the OpenAI routes."""
    metrics: CollectorRegistry
    """vLLM's own."""
    vocabulary: int
    """Token ids are below this."""
    max_model_len: int


@dataclass
class EngineHost:
    """Starts, watches and stops the engine. Everything here runs on the app's event loop, except the blocking start."""

    settings: PolicySettings
    on_failure: Callable[[str], None]
    """Called once with the reason when the engine can't serve any more; the process should end."""
    phase: Phase = Phase.STARTING
    reason: str = ""
    _running: Running | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def require(self) -> Running:
        """The running engine. Raises a 503 problem where it is not ready."""
        if self._running is None or self.phase is not Phase.READY:
            detail = f"the engine is {self.phase}{': ' + self.reason if self.reason else ''}; GET /readyz tells when"
            raise ProblemError(503, "not-ready", "The server is not ready", detail, headers={"Retry-After": "1"})
        return self._running

    def start(self, prepare: Callable[[Running], Awaitable[None]]) -> None:
        """Begin to start the engine; ``prepare`` runs on it before it counts as ready."""
        task = asyncio.create_task(self._start(prepare), name="engine-start")
        self._tasks.add(task)

    async def _start(self, prepare: Callable[[Running], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(self.settings.startup_timeout) as deadline:
                client, arguments = await _in_daemon_thread(lambda: _build(self.settings))
                running = await _serve_openai(client, arguments)
                self._running = running
                async with running.openai.router.lifespan_context(running.openai):
                    await prepare(running)
                    deadline.reschedule(None)  # it has started: what follows lasts as long as the server
                    self.phase = Phase.READY
                    await self._watch(running)
        except TimeoutError:
            self.fail(f"the engine did not start within {self.settings.startup_timeout:g} s (startup_timeout)")
        except Exception as error:
            self.fail(str(error) or type(error).__name__)

    async def _watch(self, running: Running) -> None:
        while True:
            await asyncio.sleep(0.5)  # vLLM notices the end of its processes, but offers no event for it
            if running.client.errored:
                raise RuntimeError("the engine's process died")

    def fail(self, reason: str) -> None:
        """Record that the engine can't serve any more. The first reason stays."""
        if self.phase in (Phase.STARTING, Phase.READY):
            self.phase, self.reason = Phase.FAILED, reason
            self.on_failure(reason)

    async def stop(self) -> None:
        """Stop the engine and its processes; returns within about 5 s."""
        if self.phase is not Phase.FAILED:
            self.phase = Phase.STOPPED
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._running is not None:
            client = self._running.client
            await _in_daemon_thread(lambda: client.shutdown(timeout=STOP_TIMEOUT_S))
        await _in_daemon_thread(_end_children)


def _build(settings: PolicySettings) -> tuple["AsyncLLM", "Namespace"]:
    """Import vLLM and start its engine's process. Blocks for tens of seconds."""
    prepare_environment(settings)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args(vllm_arguments(settings))
    client = AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(arguments))
    return client, arguments


async def _serve_openai(client: "AsyncLLM", arguments: "Namespace") -> Running:
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app
    from vllm.v1.metrics.prometheus import get_prometheus_registry

    await client.reset_mm_cache()
    tasks = await client.get_supported_tasks()
    openai = build_app(arguments, tasks, client.model_config)
    await init_app_state(client, openai.state, arguments, tasks)
    return Running(
        client,
        openai,
        get_prometheus_registry(),
        client.model_config.get_vocab_size(),
        client.model_config.max_model_len,
    )


async def _in_daemon_thread(call: Callable[[], T]) -> T:
    """Run a blocking call in a thread that does not keep the process from ending, as the default executor's would."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # a call may return None

    def run() -> None:
        result, failure = None, None
        try:
            result = call()
        except (Exception, SystemExit) as error:
            failure = error if isinstance(error, Exception) else RuntimeError("vLLM refused its arguments")
        with contextlib.suppress(RuntimeError):  # the loop may be gone when a start is given up
            loop.call_soon_threadsafe(deliver, result, failure)

    threading.Thread(target=run, name="engine", daemon=True).start()
    return await done


def _end_children() -> None:
    """Kill what the engine left: all of it, when it is stopped while it starts."""
    deadline = time.monotonic() + 1
    for child in multiprocessing.active_children():
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.join(max(0.0, deadline - time.monotonic()))
