"""How long the job client waits for a server that is away, and when it gives up."""

import httpx
import pytest

from gagpo.client import JobError, Patience
from gagpo.client.following import EventStream, Reconnecting

URL = "http://trainer:8000"


class Clock:
    """A clock that stands unless it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def answer(status: int, body: str = "") -> httpx.Response:
    return httpx.Response(status, text=body, request=httpx.Request("GET", f"{URL}/v1/jobs/a/events"))


def test_waits_double_up_to_a_bound_and_start_again_after_progress() -> None:
    line = Reconnecting(URL, Patience(give_up_s=1000, wait_first_s=0.5, wait_most_s=3), Clock())
    assert [line.lost() for _ in range(5)] == [0.5, 1, 2, 3, 3]
    line.progress()
    assert line.lost() == 0.5


def test_it_gives_up_once_nothing_came_for_so_long_and_names_the_server_and_what_to_check() -> None:
    clock = Clock()
    line = Reconnecting(URL, Patience(give_up_s=60), clock)
    line.lost(httpx.ConnectError("connection refused"))
    clock.now = 59
    line.lost(httpx.ConnectError("connection refused"))
    clock.now = 61
    with pytest.raises(JobError, match=r"http://trainer:8000 \(connection refused\).*curl http://trainer:8000/readyz"):
        line.lost(httpx.ConnectError("connection refused"))


def test_a_server_that_ends_its_streams_in_good_order_is_not_away() -> None:
    clock = Clock()
    line = Reconnecting(URL, Patience(give_up_s=60), clock)
    for _ in range(5):
        line.ended()
        clock.now += 50
    line.lost()


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_a_server_behind_it_is_waited_for(status: int) -> None:
    assert Reconnecting(URL, Patience()).answered(answer(status)) is False


def test_a_refusal_is_not_waited_for() -> None:
    with pytest.raises(JobError, match="HTTP 500"):
        Reconnecting(URL, Patience()).answered(answer(500, "broken"))


def test_a_stream_goes_on_behind_the_event_it_was_given() -> None:
    assert "last-event-id" not in EventStream("a", None).headers
    assert EventStream("a", "17-0").headers["last-event-id"] == "17-0"
    assert EventStream("a/../b", None).path == "/v1/jobs/a%2F..%2Fb/events"
