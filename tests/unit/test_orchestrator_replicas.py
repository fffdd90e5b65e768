"""Replicas behind one host name: found, spread over, left out and found again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from gagpo.ports import free_port
from services.orchestrator.http import ReplicaSet, ServerUnavailableError
from services.orchestrator.policy import PolicyPool, Sampling
from shared.addresses import address, host_of, look_up

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Names:
    """A name server of the test's own."""

    def __init__(self, *ips: str) -> None:
        self.ips = list(ips)
        self.asked: list[str] = []

    async def look_up(self, host: str) -> list[str]:
        """Every name has the same addresses; none is an error, as it is for a real one."""
        self.asked.append(host)
        if not self.ips:
            raise OSError(f"{host}: no address")
        return list(self.ips)


@asynccontextmanager
async def _serve(ip: str, port: int, handler: Handler) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, ip, port, reuse_address=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


def _says(ip: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=f"{ip} for {request.headers['host']}")

    return handle


async def _ask_many(replicas: ReplicaSet, times: int) -> set[str]:
    answers = await asyncio.gather(*(replicas.request("GET", "/x") for _ in range(times)))
    return {answer.decode().split()[0] for answer in answers}


async def test_replicas_that_come_are_used_and_those_that_go_are_not() -> None:
    port, names = free_port(), Names("127.0.0.1", "127.0.0.2")
    async with AsyncExitStack() as stack:
        for ip in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            await stack.enter_async_context(_serve(ip, port, _says(ip)))
        replicas = await stack.enter_async_context(
            ReplicaSet([f"http://env-server:{port}"], 5, 5, lookup=names.look_up, refresh_s=0.05)
        )
        assert await _ask_many(replicas, 8) == {"127.0.0.1", "127.0.0.2"}
        before = {replica.url: replica for replica in replicas.replicas}
        names.ips = ["127.0.0.2", "127.0.0.3"]
        await asyncio.sleep(0.2)
        assert await _ask_many(replicas, 8) == {"127.0.0.2", "127.0.0.3"}
        stayed = [replica for replica in replicas.replicas if replica.url == f"http://127.0.0.2:{port}"]
        assert stayed == [before[f"http://127.0.0.2:{port}"]], "what is known of one that stays is kept"
        assert (await replicas.request("GET", "/x")).endswith(f"for env-server:{port}".encode())
        assert set(names.asked) == {"env-server"}


async def test_a_name_without_addresses_is_waited_for_and_a_lost_one_keeps_its_replicas() -> None:
    port, names = free_port(), Names()
    async with (
        _serve("127.0.0.1", port, _says("127.0.0.1")),
        ReplicaSet([f"http://env-server:{port}"], 5, 5, lookup=names.look_up, refresh_s=0.05) as replicas,
    ):
        asking = asyncio.create_task(replicas.request("GET", "/x"))
        await asyncio.sleep(0.2)
        assert not asking.done()
        names.ips = ["127.0.0.1"]
        assert await asking
        names.ips = []
        await asyncio.sleep(0.2)
        assert await replicas.request("GET", "/x")


async def test_no_address_at_all_is_an_error_that_names_the_url() -> None:
    async with ReplicaSet(["http://nowhere:80"], 5, 0.3, lookup=Names().look_up) as replicas:
        with pytest.raises(ServerUnavailableError, match="http://nowhere:80"):
            await replicas.request("GET", "/x")


async def test_a_replica_that_cannot_be_reached_is_not_asked_first_again() -> None:
    port = free_port()
    names = Names("127.0.0.1", "127.0.0.2")
    async with (
        _serve("127.0.0.2", port, _says("127.0.0.2")),
        ReplicaSet([f"http://env-server:{port}"], 5, 5, lookup=names.look_up) as replicas,
    ):
        dead = next(replica for replica in replicas.replicas if "127.0.0.1" in replica.url)
        for _ in range(5):
            assert (await replicas.ask("GET", "/x", first=dead)).replica is not dead
        assert dead.failures == 1


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://10.0.0.1:8001", None), ("http://[::1]:8001", None), ("http://env-server:8001", "env-server")],
)
def test_only_names_are_looked_up(url: str, host: str | None) -> None:
    assert host_of(url) == host
    assert address(url + "/").url == url


def test_an_address_keeps_what_the_name_was_for() -> None:
    one = address("https://policy.example:8443/base/", "10.0.0.7")
    assert (one.url, one.host, one.tls_name) == (
        "https://10.0.0.7:8443/base",
        "policy.example:8443",
        "policy.example",
    )
    assert address("http://policy", "fd00::7").url == "http://[fd00::7]"


@pytest.mark.parametrize("url", ["env-server:8001", "ftp://env-server", "http://"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="should read like"):
        ReplicaSet([url], 5, 5)


async def test_a_host_with_addresses_of_both_kinds_is_one_replica() -> None:
    assert await look_up("localhost") == ["127.0.0.1"]


class PolicyStub:
    """A policy server that says which weights it has."""

    def __init__(self, version: int, digest: str = "job") -> None:
        self.version, self.digest = version, digest
        self.asked = 0

    async def handle(self, request: web.Request) -> web.Response:
        """Its weights, or an answer sampled by them."""
        if request.path == "/v1/weights":
            held = {"version": self.version, "digest": self.digest, "initial_digest": "initial"}
            return web.json_response({**held, "model": "stub", "history": []})
        self.asked += 1
        answer = {"token_ids": [1], "logprobs": [0.0], "policy_versions": [self.version], "finish_reason": "stop"}
        return web.json_response(answer)


SAMPLING = Sampling(max_tokens=4, temperature=1.0, top_p=1.0, top_k=0, stop_token_ids=())


@asynccontextmanager
async def _policies(*stubs: PolicyStub, deadline_s: float = 5.0) -> AsyncIterator[PolicyPool]:
    port = free_port()
    names = Names(*(f"127.0.0.{place}" for place in range(1, len(stubs) + 1)))
    async with AsyncExitStack() as stack:
        for ip, stub in zip(names.ips, stubs, strict=True):
            await stack.enter_async_context(_serve(ip, port, stub.handle))
        replicas = await stack.enter_async_context(
            ReplicaSet([f"http://policy:{port}"], 5, deadline_s, lookup=names.look_up)
        )

        async def of_job(version: int, digest: str) -> bool:
            return digest == "job"

        pool = PolicyPool(replicas, deadline_s, of_job)
        stack.push_async_callback(pool.leave)
        yield pool


async def _generate(pool: PolicyPool, least_version: int, times: int = 6) -> None:
    await asyncio.gather(*(pool.generate([1, 2], SAMPLING, least_version, seed) for seed in range(times)))


async def test_a_policy_server_that_lags_is_left_out_until_it_has_caught_up() -> None:
    ahead, behind = PolicyStub(3), PolicyStub(2)
    async with _policies(ahead, behind) as pool:
        await _generate(pool, 3)
        assert (ahead.asked, behind.asked) == (6, 0)
        behind.version = 3
        for _ in range(20):
            await _generate(pool, 3)
            await asyncio.sleep(0.02)
        assert behind.asked > 0
        before = ahead.asked
        ahead.version = behind.version = 4
        await _generate(pool, 4)
        assert ahead.asked > before


async def test_weights_of_another_job_are_not_sampled_from_however_new() -> None:
    ours, theirs = PolicyStub(3), PolicyStub(40, digest="another job")
    async with _policies(ours, theirs) as pool:
        await _generate(pool, 2)
        assert theirs.asked == 0


async def test_a_restarted_policy_server_is_found_out_by_its_answer() -> None:
    one = PolicyStub(3)
    async with _policies(one) as pool:
        await _generate(pool, 3)
        one.version = 0
        late = asyncio.create_task(pool.generate([1, 2], SAMPLING, 3, 0))
        await asyncio.sleep(0.5)
        assert not late.done()
        one.version = 3
        assert (await late).policy_versions == [3]


async def test_where_nobody_has_the_weights_the_deadline_says_who_has_what() -> None:
    async with _policies(PolicyStub(1), PolicyStub(9, digest="another job"), deadline_s=0.5) as pool:
        with pytest.raises(
            ServerUnavailableError, match=r"version 2 or newer, there: .*: 1, .*: weights of another job"
        ):
            await _generate(pool, 2, times=1)
