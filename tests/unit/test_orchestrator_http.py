"""Requests to replicas: what is tried again, where, and what is not."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from services.orchestrator.http import ReplicaSet, ServerProblemError, ServerUnavailableError

Answer = Callable[[int], web.Response]
"""The number of the request, from 0, → its answer."""


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server's URL, and the bodies that it was sent."""
    bodies: list[bytes] = []

    async def handle(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return answer(len(bodies) - 1)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        await runner.cleanup()


def _busy(times: int, **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda number: web.Response(status=503, headers=names) if number < times else web.Response(text="done")


async def test_a_busy_server_is_asked_again_with_the_same_body() -> None:
    async with _server(_busy(3)) as (url, bodies), ReplicaSet([url], 5, 5) as replicas:
        assert await replicas.request("POST", "/x", b"body") == b"done"
        assert bodies == [b"body"] * 4


async def test_the_pause_that_the_server_names_is_kept() -> None:
    async with _server(_busy(1, retry_after="1")) as (url, _), ReplicaSet([url], 5, 5) as replicas:
        started = time.monotonic()
        await replicas.request("GET", "/x")
        assert time.monotonic() - started >= 1.0


async def test_a_busy_server_is_given_up_after_the_deadline() -> None:
    async with _server(_busy(10**6)) as (url, bodies), ReplicaSet([url], 5, 0.5) as replicas:
        with pytest.raises(ServerUnavailableError, match="503"):
            await replicas.request("GET", "/x")
        assert len(bodies) > 2


async def test_the_other_replica_takes_over_at_once() -> None:
    async with AsyncExitStack() as stack:
        good, _ = await stack.enter_async_context(_server(_busy(0)))
        async with _server(_busy(0)) as (gone, _):
            pass
        no_time_for_a_pause = 0.0
        replicas = await stack.enter_async_context(ReplicaSet([gone, good], 5, no_time_for_a_pause))
        assert await replicas.request("GET", "/x", first=replicas.replicas[0]) == b"done"


async def test_a_server_that_comes_back_is_found() -> None:
    async with _server(_busy(0)) as (url, _):
        pass
    async with ReplicaSet([url], 5, 10) as replicas:
        asking = asyncio.create_task(replicas.request("GET", "/x"))
        await asyncio.sleep(0.3)
        app = web.Application()
        app.router.add_get("/x", _say_back)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", int(url.rsplit(":", 1)[1]), reuse_address=True).start()
        assert await asking == b"back"
        await runner.cleanup()


async def _say_back(_: web.Request) -> web.Response:
    return web.Response(text="back")


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    app = web.Application()
    app.router.add_get("/x", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ReplicaSet([f"http://127.0.0.1:{runner.addresses[0][1]}"], 0.2, 0.5) as replicas:
        with pytest.raises(ServerUnavailableError, match="Timeout"):
            await replicas.request("GET", "/x")
    await runner.cleanup()


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500, 504])
async def test_a_refusal_is_not_repeated_and_keeps_its_problem(status: int) -> None:
    document = {"type": "/problems/step-conflict", "title": "T", "status": status, "detail": "say no"}

    def refuse(_: int) -> web.Response:
        return web.json_response(document, status=status, content_type="application/problem+json")

    async with _server(refuse) as (url, bodies), ReplicaSet([url], 5, 5) as replicas:
        with pytest.raises(ServerProblemError, match="say no") as caught:
            await replicas.request("GET", "/x")
        assert caught.value.kind == "step-conflict"
        assert len(bodies) == 1


async def test_an_error_that_is_no_problem_document_is_told_too() -> None:
    async with (
        _server(lambda _: web.Response(status=500, text="<html>oops")) as (url, _),
        ReplicaSet([url], 5, 5) as replicas,
    ):
        with pytest.raises(ServerProblemError, match="oops") as caught:
            await replicas.request("GET", "/x")
        assert caught.value.problem is None


async def test_requests_spread_over_the_replicas() -> None:
    everyone = asyncio.Barrier(11)

    async def wait(_: web.Request) -> web.Response:
        await everyone.wait()
        return web.Response()

    async with AsyncExitStack() as stack:
        urls = []
        for _ in range(2):
            app = web.Application()
            app.router.add_get("/x", wait)
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        replicas = await stack.enter_async_context(ReplicaSet(urls, 5, 5))
        asking = [asyncio.create_task(replicas.request("GET", "/x")) for _ in range(10)]
        await asyncio.sleep(0)
        assert [replica.in_flight for replica in replicas.replicas] == [5, 5]
        await everyone.wait()
        await asyncio.gather(*asking)
        assert [replica.in_flight for replica in replicas.replicas] == [0, 0]
