"""What ``GET /v1/status`` tells of the env and policy servers."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.orchestrator_stack import WORDS, make_stack, read_groups, start_orchestrator, start_policy
from tests.processes import start_env_server, start_redis
from tests.tokenizers import write_tokenizer

Replicas = list[dict[str, Any]]


def _wait_for(replicas: Callable[[], Replicas], wanted: Replicas) -> None:
    """Until these fields of the replicas have these values."""
    deadline = time.monotonic() + 60
    while True:
        found = [{name: one[name] for name in two} for one, two in zip(replicas(), wanted, strict=True)]
        if found == wanted:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_each_replica_is_listed_with_what_keeps_it_from_being_used(tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model", WORDS)
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        envs = [running.enter_context(start_env_server(REDIS_URL=redis_url)) for _ in range(2)]
        policies = [running.enter_context(start_policy(model)) for _ in range(2)]
        stack = make_stack(tmp_path, "status", redis_url, ",".join(one.url for one in envs), ",".join(policies))
        running.callback(stack.channel.close)
        with start_orchestrator(stack) as (_, url):

            def listed(what: str) -> Replicas:
                found: Replicas = httpx.get(f"{url}/v1/status").json()[f"{what}_replicas"]
                return found

            _wait_until_ready(url)
            idle = {"reachable": None, "failures": 0, "version": None, "of_job": None, "lagging": None}
            assert [{**one, "in_flight": 0} for one in listed("policy")] == [
                {"url": policy, "in_flight": 0, **idle} for policy in policies
            ]
            stack.channel.set_policy_version(0)
            assert len(read_groups(stack, 0)) == 3
            there = {"reachable": True, "failures": 0}
            _wait_for(lambda: listed("env"), [{"url": env.url, **there, "same_tasks": True} for env in envs])
            _wait_for(lambda: listed("policy"), [{**there, "version": 0, "of_job": True, "lagging": False}] * 2)

            envs[1].kill()
            httpx.post(f"{policies[0]}/control", json={"version": 1}).raise_for_status()
            stack.channel.set_policy_version(1)
            assert len(read_groups(stack, 1)) == 3
            _wait_for(
                lambda: listed("policy"),
                [
                    {"url": policies[0], "reachable": True, "version": 1, "lagging": False},
                    {"url": policies[1], "reachable": True, "version": 0, "lagging": True},
                ],
            )
            _wait_for(lambda: listed("env"), [{"reachable": True}, {"reachable": False, "same_tasks": None}])
            assert listed("env")[1]["failures"] > 0


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "the orchestrator is not ready"
        time.sleep(0.1)
