"""A watched job: what its events add up to, and what a terminal and a pipe show of it."""

import io
from datetime import UTC, datetime

from pydantic import JsonValue
from rich.console import Console

from gagpo.watching import LineView, LiveView, Standing
from gagpo.watching.lines import event_line
from gagpo.watching.live import draw
from gagpo.watching.standing import duration
from shared.schemas.job import JobDetail, JobEvent, JobState


def detail(**changes: JsonValue) -> JobDetail:
    document: dict[str, JsonValue] = {
        "id": "alfworld-cpu-1",
        "name": "alfworld-cpu",
        "state": "queued",
        "submitted_at": datetime(2026, 11, 30, tzinfo=UTC).isoformat(),
        "steps": 30,
        "recipe": {"name": "alfworld-cpu", "rollout": {"groups_per_step": 4, "a_key_of_tomorrow": 1}},
    }
    return JobDetail.model_validate(document | changes)


def event(kind: str, **payload: JsonValue) -> JobEvent:
    return JobEvent(id="1-0", kind=kind, payload=payload)


def figures(success: float, score: float) -> dict[str, JsonValue]:
    return {
        "success_rate": success,
        "mean_score": score,
        "mean_episode_length": 9.5,
        "mean_reward": 3.25,
        "episodes": 32,
    }


def trained(step: int, seconds: float = 4.0, loss: float | None = -0.0125, **environments: JsonValue) -> JobEvent:
    return event(
        "step",
        **figures(0.5, 0.5),
        step=step,
        version=step + 1,
        environments=environments or {"alfworld": figures(0.5, 0.5)},
        loss=loss,
        kl_reference=0.003,
        clip_fraction=0.04,
        entropy=0.52,
        grad_norm=0.41,
        staleness_mean=0.0,
        tokens_generated=4000,
        tokens_per_s_generated=1000.0,
        seconds_total=seconds,
    )


def running(*events: JobEvent) -> Standing:
    standing = Standing.of(detail())
    for one in [event("state", state="running", before="queued", reason=None), *events]:
        standing.take(one)
    return standing


def pictured(standing: Standing) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(draw(standing))
    return captured.get()


def test_groups_fill_the_step_in_progress_and_each_counts_once() -> None:
    standing = running()
    for index in (0, 1, 1):
        standing.take(event("group", step=0, index=index, environment="alfworld"))
    standing.take(event("group", step=1, index=0, environment="alfworld"))
    assert (standing.done, standing.groups_made) == (0, 2)
    standing.take(trained(0))
    assert (standing.done, standing.groups_made) == (1, 1)


def test_the_time_left_is_that_of_the_latest_ten_steps_for_each_step_to_come() -> None:
    standing = running(trained(0, seconds=100.0), *(trained(step, seconds=2.0) for step in range(1, 11)))
    assert standing.step_s == 2.0
    assert standing.left_s == 19 * 2.0
    standing.take(event("state", state="interrupted", before="running", reason="the trainer was stopped"))
    assert standing.left_s is None


def test_steps_that_are_made_again_after_a_crash_set_the_count_back() -> None:
    assert running(trained(0), trained(1), trained(1)).done == 2


def test_the_picture_shows_state_bars_every_environment_and_the_optimizers_health() -> None:
    standing = running(
        trained(0, alfworld=figures(0.5, 0.5), webshop=figures(0.25, 0.625)), event("group", step=1, index=0)
    )
    picture = pictured(standing)
    assert "alfworld-cpu-1  running  4.0 s a step  1:56 left" in picture
    assert "1/30" in picture
    assert "1/4" in picture
    rows = {line.split()[0]: line.split()[1:] for line in picture.splitlines() if line.strip()}
    assert rows["alfworld"] == ["50.0%", "9.5", "3.25"]
    assert rows["webshop"] == ["25.0%", "0.625", "9.5", "3.25"]
    assert "loss -0.0125  KL 0.0030  clip 4.0%  entropy 0.520  grad norm 0.410" in picture


def test_a_job_whose_loss_is_no_number_any_more_can_still_be_watched() -> None:
    assert "loss nan" in pictured(running(trained(0, loss=None)))


def test_lines_tell_states_steps_and_checkpoints_and_nothing_else() -> None:
    console = Console(file=io.StringIO(), soft_wrap=True, highlight=False)
    standing = Standing.of(detail())
    events = [
        event("state", state="running", before="queued", reason=None),
        event("group", step=0, index=0),
        trained(0),
        event("weights", version=1, digest="ab", seconds=0.1),
        event("checkpoint", version=1, path="x", seconds=0.1),
        event("state", state="failed", before="running", reason="no groups came"),
    ]
    with LineView(console) as view, console.capture() as captured:
        for one in events:
            standing.take(one)
            view.show(one, standing)
    lines = captured.get().splitlines()
    assert lines[0] == "running"
    assert lines[1].startswith("step   1/30  success  50%")
    assert lines[1].endswith("4.0 s  1:56 left")
    assert lines[2:] == ["checkpoint of version 1", "failed: no groups came"]


def test_evaluations_are_told_with_their_intervals_and_scores_only_where_graded() -> None:
    def evaluated(success: float, score: float) -> dict[str, JsonValue]:
        interval: list[JsonValue] = [success - 0.1, success + 0.1]
        return {
            "episodes": 128,
            "success_rate": success,
            "success_interval": interval,
            "mean_score": score,
            "mean_steps": 9.0,
        }

    standing = running()
    alone = event("evaluation", when="before", seconds=3.0, environments={"alfworld": evaluated(0.5, 0.5)})
    told = event_line(alone, standing)
    assert told == "held-out success before: 50.0% (95%: 40.0%–60.0%, 128 episodes, mean length 9.0)"
    both = {"alfworld": evaluated(0.5, 0.5), "webshop": evaluated(0.25, 0.6)}
    assert (event_line(event("evaluation", when="after", environments=both), standing) or "").endswith(
        "; webshop 25.0% (95%: 15.0%–35.0%, 128 episodes, mean length 9.0), score 0.600"
    )


def test_the_live_view_leaves_its_last_picture() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    standing = Standing.of(detail())
    with console.capture() as captured, LiveView(console, standing) as view:
        for one in [event("state", state="running", before="queued", reason=None), trained(0)]:
            standing.take(one)
            view.show(one, standing)
    assert "1/30" in captured.get()
    assert standing.state is JobState.RUNNING


def test_durations_read_as_people_say_them() -> None:
    assert [duration(seconds) for seconds in (3.24, 42.0, 59.6, 185.0, 3725.0)] == [
        "3.2 s",
        "42 s",
        "1:00",
        "3:05",
        "1:02:05",
    ]
