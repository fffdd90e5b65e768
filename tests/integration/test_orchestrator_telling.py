"""Running episodes, told turn by turn to whoever watches: what is told, when, and that the rollouts never notice."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from gagpo import redis_server
from services.orchestrator.telling import EpisodeTeller
from shared.buffer import GroupReader, JobKeys, TurnReader, TurnWriter, connect
from shared.live_episodes import LiveEpisode, LiveEpisodes
from shared.schemas.turns import EpisodeBegan, TurnPlayed
from shared.trajectory import Episode, Group
from tests.orchestrator_stack import WORDS, Stack, make_stack, read_groups, start_orchestrator, start_policy
from tests.processes import free_port, start_env_server, start_redis
from tests.tokenizers import write_tokenizer

ALL = 12
"""Episodes of a training step."""
CONCURRENCY = 6
"""How many of them are played at once."""
DEADLINE_S = 120.0


async def test_what_is_told_is_what_the_groups_hold(stack: Stack) -> None:
    stack.publish(0)
    reader, live = TurnReader(stack.redis_url, stack.job), LiveEpisodes(keep_ended=ALL)
    assert await reader.read() == []
    with start_orchestrator(stack):
        groups = await _groups(stack, _follow(reader, live, lambda: _ended(live) == ALL))
    await reader.close()
    _check(live, groups)
    assert _ended(live) == ALL
    one = next(iter(live.episodes.values())).began
    assert (one.environment, one.task_type, one.attempt, one.task) == ("maze", "maze", 0, one.observation)
    assert abs(one.began_at - time.time()) < 120
    client = connect(stack.redis_url)
    assert 0 < client.ttl(JobKeys(stack.job).watched) <= 15
    assert 0 < client.ttl(JobKeys(stack.job).turns) <= 60, "nothing is left behind once nobody watches"
    client.close()


async def test_nothing_is_told_while_nobody_watches(stack: Stack) -> None:
    stack.publish(0)
    with start_orchestrator(stack):
        assert len(await asyncio.to_thread(read_groups, stack, 0)) == 3
    client = connect(stack.redis_url)
    assert not client.exists(JobKeys(stack.job).turns, JobKeys(stack.job).watched)
    client.close()


async def test_a_job_that_ends_at_any_moment_is_not_held_up(redis_url: str) -> None:
    """Also while the connection to Redis is being made."""
    for turns_of_the_loop in range(20):
        async with asyncio.timeout(10):
            async with EpisodeTeller(TurnWriter(redis_url, "short")).running():
                for _ in range(turns_of_the_loop):
                    await asyncio.sleep(0)


async def test_whoever_comes_late_is_told_the_turns_before_whatever_others_have_seen(tmp_path: Path) -> None:
    with _slow_system(tmp_path) as stack, start_orchestrator(stack):
        stack.publish(0)
        await _wait(lambda: len(stack.requests()) >= 40)
        stack.control(fail=-1, status=503)  # nothing goes on until others have come
        first, seen_by_first = TurnReader(stack.redis_url, stack.job), LiveEpisodes(keep_ended=ALL)
        await _follow(first, seen_by_first, lambda: len(_running(seen_by_first)) == CONCURRENCY)
        client = connect(stack.redis_url)
        client.xtrim(JobKeys(stack.job).turns, maxlen=0, approximate=False)  # as if many had been told since
        client.close()
        second, seen_by_second = TurnReader(stack.redis_url, stack.job), LiveEpisodes(keep_ended=ALL)
        await _follow(second, seen_by_second, lambda: len(_running(seen_by_second)) == CONCURRENCY)
        assert sum(len(one.turns) for one in _running(seen_by_second)) > CONCURRENCY, "those before somebody watched"
        stack.control(fail=0)
        groups = await _groups(stack, _follow(first, seen_by_first, lambda: _ended(seen_by_first) >= CONCURRENCY))
        assert await second.read(), "and what comes next"
        await first.close()
        await second.close()
    _check(seen_by_first, groups)


async def test_an_episode_that_fails_is_told_as_broken_off_and_begins_again(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=2, status=422)
    reader, live = TurnReader(stack.redis_url, stack.job), LiveEpisodes(keep_ended=100)
    await reader.read()
    with start_orchestrator(stack):
        groups = await _groups(stack, _follow(reader, live, lambda: _ended(live) == ALL + 2))
    await reader.close()
    broken_off = [one for one in live.episodes.values() if one.ended is not None and one.ended.end is None]
    assert ["refused for the test" in one.ended.reason for one in broken_off if one.ended] == [True, True]
    again = [one.began for one in live.episodes.values() if one.began.attempt == 1]
    assert {(one.group, one.member) for one in again} == {(one.began.group, one.began.member) for one in broken_off}
    _check(live, groups)


async def test_redis_may_go_away_while_somebody_watches(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as running:
        redis = redis_server.start_redis(tmp_path / "redis", port)
        running.callback(redis.stop)
        stack = running.enter_context(_slow_system(tmp_path, redis.url))
        stack.publish(0)
        reader, live = TurnReader(stack.redis_url, stack.job), LiveEpisodes(keep_ended=ALL)
        await reader.read()
        _, url = running.enter_context(start_orchestrator(stack))
        await _follow(reader, live, lambda: len(live.episodes) >= CONCURRENCY)
        os.kill(redis.pid, signal.SIGKILL)
        redis.stop()
        await asyncio.sleep(2.5)
        running.enter_context(redis_server.start_redis(tmp_path / "redis", port))
        reader, later = TurnReader(stack.redis_url, stack.job), LiveEpisodes(keep_ended=ALL)
        groups = await _groups(stack, _follow(reader, later, lambda: _ended(later) >= 3))
        assert [len(group.episodes) for group in groups] == [4, 4, 4]
        status = await asyncio.to_thread(httpx.get, url + "/v1/status")
        assert status.json()["episodes_retried"] == 0
        log = (stack.folder / "orchestrator.log").read_text()
    assert log.count("running episodes cannot be told") == 1


def _check(live: LiveEpisodes, groups: list[Group]) -> None:
    """Every episode of the groups was told as it is there, turn by turn."""
    told = {
        (one.began.group, one.began.member): one
        for one in live.episodes.values()
        if one.ended is not None and one.ended.end is not None
    }
    played = {
        (group.index, member): (group, episode) for group in groups for member, episode in enumerate(group.episodes)
    }
    assert len(played) == ALL
    assert set(told) <= set(played)
    for place, one in told.items():
        group, episode = played[place]
        assert (one.began.step, one.began.task_id) == (group.step, group.task_id)
        _check_episode(one, episode)


def _check_episode(one: LiveEpisode, episode: Episode) -> None:
    seen = [one.began.observation, *(turn.observation for turn in one.turns)]
    assert seen == [*(step.observation for step in episode.steps), episode.final_observation]
    assert [(turn.action, turn.reward, turn.valid_action, turn.policy_version) for turn in one.turns] == [
        (step.action, step.reward, step.valid_action, int(step.policy_versions[0])) for step in episode.steps
    ]
    assert all(turn.wrote is None for turn in one.turns), "it wrote nothing but the actions"
    ended = one.ended
    assert ended is not None
    assert (ended.end, ended.won, ended.score, ended.turns) == (
        episode.end,
        episode.won,
        episode.score,
        len(episode.steps),
    )


def test_a_reader_is_told_each_record_once_and_none_out_of_order() -> None:
    live = LiveEpisodes(keep_ended=1)
    assert live.take(_turn("a", 3)) is None, "its beginning was missed"
    for record in (_began("a", 0), _turn("a", 0), _began("b", 1), _turn("b", 0)):
        assert live.take(record) is not None
    for record in (_began("a", 0), _turn("a", 0), _turn("a", 2)):
        assert live.take(record) is None
    assert live.take(_turn("a", 1)) is not None
    assert [turn.turn for turn in live.episodes["a"].turns] == [0, 1]
    live.take(_began("c", 0))
    ended = live.episodes["a"].ended
    assert ended is not None
    assert ended.reason == "it is being played again", "another orchestrator has taken over its place"
    live.break_off("the job is over")
    assert list(live.episodes) == ["c"], "so many ended ones are kept"


def _began(episode: str, member: int) -> EpisodeBegan:
    return EpisodeBegan(
        episode=episode,
        step=0,
        group=0,
        member=member,
        environment="maze",
        task_id="maze-3",
        task="",
        observation="",
        began_at=0.0,
    )


def _turn(episode: str, turn: int) -> TurnPlayed:
    return TurnPlayed(
        episode=episode, turn=turn, action="north", observation="", reward=0.0, valid_action=True, policy_version=0
    )


@contextmanager
def _slow_system(folder: Path, redis_url: str | None = None) -> Iterator[Stack]:
    """Servers of its own, whose policy takes a tenth of a second for an action."""
    model = write_tokenizer(folder / "model", WORDS)
    with ExitStack() as running:
        url = redis_url or running.enter_context(start_redis())
        env = running.enter_context(start_env_server())
        policy = running.enter_context(start_policy(model, delay_s=0.15))
        stack = make_stack(folder, "slow", url, env.url, policy)
        running.callback(stack.channel.close)
        yield stack


async def _follow(
    reader: TurnReader, live: LiveEpisodes, until: Callable[[], bool], deadline_s: float = DEADLINE_S
) -> None:
    """Take what is told until a condition holds."""
    give_up = time.monotonic() + deadline_s
    while not until():
        assert time.monotonic() < give_up, {one.id: (len(one.turns), one.ended) for one in live.episodes.values()}
        for told in await reader.read(1.0):
            assert live.take(told.record) is not None, "told twice, or out of order"


async def _groups(stack: Stack, watching: Coroutine[None, None, None]) -> list[Group]:
    """The groups of the first training step, while somebody watches."""

    def read() -> list[Group]:
        with GroupReader(stack.redis_url, stack.job) as reader:
            return reader.read_step(0, 3, DEADLINE_S)

    groups, _ = await asyncio.gather(asyncio.to_thread(read), watching)
    return groups


async def _wait(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    give_up = time.monotonic() + deadline_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)


def _running(live: LiveEpisodes) -> list[LiveEpisode]:
    return [one for one in live.episodes.values() if one.ended is None]


def _ended(live: LiveEpisodes) -> int:
    return sum(one.ended is not None for one in live.episodes.values())
