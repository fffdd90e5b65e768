"""The embedded Redis: a real server that keeps its data, evicts nothing, and never shares its folder."""

import os
import signal
from pathlib import Path

import pytest
import redis

from gagpo.ports import free_port
from gagpo.redis_server import RedisServerError, check_given_redis, start_redis


def test_it_answers_keeps_an_append_only_file_and_never_evicts(tmp_path: Path) -> None:
    with start_redis(tmp_path) as server:
        client = redis.Redis.from_url(server.url)
        assert client.ping()
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert not server.alive
    server.stop()  # a second time is no error


def test_its_data_is_there_again_after_a_stop(tmp_path: Path) -> None:
    with start_redis(tmp_path) as server:
        redis.Redis.from_url(server.url).set("kept", "yes")
    with start_redis(tmp_path) as server:
        assert redis.Redis.from_url(server.url).get("kept") == b"yes"


def test_a_second_server_in_the_same_folder_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with start_redis(tmp_path) as first:
        with pytest.raises(RedisServerError, match="another Redis server still runs"):
            start_redis(tmp_path)
        os.kill(first.pid, signal.SIGKILL)
        first.stop()
        with start_redis(tmp_path) as second:
            assert second.alive


def test_a_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with start_redis(tmp_path / "first") as first:
        taken = int(first.url.split(":")[2].split("/")[0])
        with pytest.raises(RedisServerError, match=r"did not start(.|\n)*[Aa]ddress already in use"):
            start_redis(tmp_path / "second", port=taken)


def test_a_given_redis_that_does_not_answer_is_an_error_that_names_the_variable_and_hides_the_password() -> None:
    port = free_port()
    with pytest.raises(RedisServerError) as caught:
        check_given_redis(f"redis://someone:hush@127.0.0.1:{port}/0")
    said = str(caught.value)
    assert f"REDIS_URL=redis://***@127.0.0.1:{port}/0: no Redis answers there" in said
    assert "unset REDIS_URL" in said
    assert "hush" not in said


def test_a_given_redis_that_answers_is_fine(tmp_path: Path) -> None:
    with start_redis(tmp_path) as server:
        check_given_redis(server.url)
