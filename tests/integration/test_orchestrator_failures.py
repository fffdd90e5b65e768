"""The orchestrator where something around it fails: episodes, servers, Redis."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from gagpo import redis_server
from shared.buffer import GroupReader
from tests.orchestrator_stack import WORDS, Stack, make_stack, read_groups, start_orchestrator, start_policy
from tests.processes import free_port, start_env_server, start_redis
from tests.tokenizers import write_tokenizer


def test_a_failed_episode_is_played_again_and_the_group_stays_whole(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=5, status=422)
    with start_orchestrator(stack) as (_, url):
        assert [len(group.episodes) for group in read_groups(stack, 0)] == [4, 4, 4]
        status = httpx.get(url + "/v1/status").json()
    assert (status["episodes_retried"], status["groups_dropped"]) == (5, 0)


def test_a_server_that_is_busy_or_away_for_a_moment_costs_no_episode(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=9, status=503)
    with start_orchestrator(stack) as (_, url):
        assert len(read_groups(stack, 0)) == 3
        assert httpx.get(url + "/v1/status").json()["episodes_retried"] == 0


def test_a_group_that_cannot_be_finished_is_dropped_and_said_to_be(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=-1, status=422)
    with start_orchestrator(stack) as (_, url), GroupReader(stack.redis_url, stack.job) as reader:
        assert reader.read_step(0, 3, 40) == []
        dropped = reader.dropped(0)
        assert sorted(dropped) == [0, 1, 2]
        assert "refused for the test" in dropped[0]
        stack.control(fail=0)
        stack.publish(1)
        assert len(reader.read_step(1, 3, 40)) == 3
        assert httpx.get(url + "/v1/status").json()["groups_dropped"] == 3


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_episodes_go_on_when_one_of_two_env_servers_dies(tmp_path: Path, ending: str) -> None:
    model = write_tokenizer(tmp_path / "model", WORDS)
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        first = running.enter_context(start_env_server(REDIS_URL=redis_url))
        second = running.enter_context(start_env_server(REDIS_URL=redis_url))
        policy = running.enter_context(start_policy(model, delay_s=0.1))
        stack = make_stack(tmp_path, "two-servers", redis_url, f"{first.url},{second.url}", policy)
        stack.publish(0)
        with start_orchestrator(stack) as (_, url):
            while len(stack.requests()) < 20:
                time.sleep(0.05)
            asked = time.monotonic()
            second.kill() if ending == "kill" else second.stop()
            assert time.monotonic() - asked < 10
            assert len(read_groups(stack, 0)) == 3
            assert httpx.get(url + "/v1/status").json()["episodes_retried"] == 0
        stack.channel.close()


def test_a_crash_of_redis_is_ridden_out(tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "model", WORDS)
    port = free_port()
    with ExitStack() as running:
        redis = redis_server.start_redis(tmp_path / "redis", port)
        running.callback(redis.stop)
        env = running.enter_context(start_env_server())
        policy = running.enter_context(start_policy(model, delay_s=0.1))
        stack = make_stack(tmp_path, "crash", redis.url, env.url, policy)
        stack.publish(0)
        with start_orchestrator(stack):
            while len(stack.requests()) < 20:
                time.sleep(0.05)
            os.kill(redis.pid, signal.SIGKILL)
            redis.stop()
            time.sleep(1)
            running.enter_context(redis_server.start_redis(tmp_path / "redis", port))
            assert len(read_groups(stack, 0)) == 3
            stack.publish(1)
            assert len(read_groups(stack, 1)) == 3
        stack.channel.close()
