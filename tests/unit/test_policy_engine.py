"""The engine's deadline is for its start alone. A stand-in has vLLM's place, whose start takes a minute."""

import asyncio
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.policy_server import engine
from services.policy_server.engine import EngineHost, Phase, Running
from services.policy_server.settings import PolicySettings

STARTUP_S = 0.3


@dataclass
class Client:
    """What is asked of vLLM's client here."""

    errored: bool = False

    def shutdown(self, timeout: float) -> None:
        pass


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()

    async def serve(client: Client, arguments: Namespace) -> Running:
        return Running(client, FastAPI(), CollectorRegistry(), 300, 256)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "_build", lambda settings: (made, Namespace()))
    monkeypatch.setattr(engine, "_serve_openai", serve)
    return made


def host(failures: list[str]) -> EngineHost:
    return EngineHost(PolicySettings(model=Path("model"), startup_timeout=STARTUP_S), failures.append)


async def test_an_engine_that_has_started_serves_beyond_the_deadline_of_its_start(client: Client) -> None:
    failures: list[str] = []
    running = host(failures)

    async def prepare(engine: Running) -> None:
        pass

    running.start(prepare)
    await asyncio.sleep(3 * STARTUP_S)
    assert (running.phase, failures) == (Phase.READY, [])
    client.errored = True
    await asyncio.sleep(1.0)
    assert failures == ["the engine's process died"]
    await running.stop()


async def test_an_engine_that_does_not_get_ready_in_time_is_given_up(client: Client) -> None:
    failures: list[str] = []
    running = host(failures)

    async def never(engine: Running) -> None:
        await asyncio.sleep(60)

    running.start(never)
    await asyncio.sleep(3 * STARTUP_S)
    assert running.phase is Phase.FAILED
    assert failures == ["the engine did not start within 0 s (startup_timeout)"]
    await running.stop()
