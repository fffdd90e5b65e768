"""The dashboard's curves as numbers: thinning, smoothing, following a file of metrics, and what charts show."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.dashboard.curves_data import (
    LEARNING,
    MOST_POINTS,
    PHASES,
    Axis,
    Line,
    as_csv,
    environment_charts,
    group_sizes,
    is_shown,
    phase_points,
    points,
    task_type_charts,
    x_values,
)
from services.trainer.dashboard.downsample import largest_triangles, smoothed
from services.trainer.dashboard.metrics_file import MetricsFile, MetricsTable, Row, number


def _rows(count: int) -> list[Row]:
    return [
        {
            "step": step,
            "version": step + 1,
            "success_rate": step / count,
            "environment_steps_total": 10 * (step + 1),
            "seconds_total": 36.0,
            "seconds_wait": 30.0,
            "seconds_update": 6.0,
            "seconds_checkpoint": 0.0,
            "task_type_success": {"examine": 0.5} | ({"heat": 1.0} if step else {}),
            "state_group_sizes": {"1": 5, "2": step},
            "environments": {"maze": {"success_rate": 0.25}},
        }
        for step in range(count)
    ]


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400),
    st.integers(3, 60),
)
def test_thinning_keeps_the_ends_the_order_and_never_more_than_asked(values: list[float], most: int) -> None:
    kept = largest_triangles(np.arange(float(len(values))), np.array(values), most)
    assert len(kept) == min(most, len(values))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert (np.diff(kept) > 0).all()


def test_thinning_keeps_a_single_peak_and_follows_a_wave() -> None:
    x = np.arange(1000.0)
    y = np.sin(x / 40)
    y[617] = 9.0
    kept = largest_triangles(x, y, 100)
    assert 617 in kept
    seen = np.interp(x, x[kept], y[kept])
    apart = np.abs(np.delete(seen - y, np.arange(590, 645)))
    assert apart.max() < 0.1, "the line through the kept points is the line"


def test_a_line_of_two_points_or_of_none_needs_no_thinning() -> None:
    assert largest_triangles(np.array([]), np.array([]), 3).tolist() == []
    assert largest_triangles(np.array([0.0, 1.0]), np.array([5.0, 6.0]), 3).tolist() == [0, 1]
    with pytest.raises(ValueError, match="most = 2"):
        largest_triangles(np.arange(5.0), np.arange(5.0), 2)


def test_smoothing_leaves_a_constant_alone_and_has_no_early_bias() -> None:
    assert smoothed(np.full(50, 0.7), 0.9) == pytest.approx(np.full(50, 0.7))
    y = np.array([0.0, 1.0, 0.0])
    assert smoothed(y, 0.0) is y
    assert smoothed(y, 0.5) == pytest.approx([0.0, 2 / 3, 2 / 7])
    with pytest.raises(ValueError, match=r"weight = 1\.0"):
        smoothed(y, 1.0)


def test_a_file_of_metrics_is_followed_line_by_line_and_read_anew_when_replaced(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    followed = MetricsFile(file)
    assert not followed.update() and followed.rows == []
    file.write_text('{"step": 0, "loss": NaN}\n{"step": 1, "lo')
    assert followed.update()
    assert [row["step"] for row in followed.rows] == [0], "a line that is still being written waits"
    assert number(followed.rows[0], "loss") is None
    with file.open("a") as stream:
        stream.write('ss": 2.5}\n')
    assert followed.update()
    assert number(followed.rows[1], "loss") == 2.5
    assert not followed.update()

    resumed = tmp_path / "new"
    resumed.write_text('{"step": 0, "loss": 1}\n' + '{"step": 1, "loss": 3.5}\n' + '{"step": 2, "loss": 4}\n')
    resumed.replace(file)
    assert followed.update()
    assert [number(row, "loss") for row in followed.rows] == [1, 3.5, 4]
    file.unlink()
    assert followed.update() and followed.rows == []


def test_numbers_are_found_by_path() -> None:
    row: Row = {"a": {"b": {"c": 1}}, "d": None, "e": math.inf, "f": "x"}
    assert number(row, "a/b/c") == 1
    assert [number(row, path) for path in ("a", "a/b/c/d", "a/x", "d", "e", "f", "g/h")] == [None] * 7


def test_a_line_of_a_thousand_steps_is_thinned_and_keeps_its_ends() -> None:
    rows = _rows(1000)
    line = points("run", MetricsTable(rows), Line("success_rate"), Axis.STEPS)
    assert len(line.values) == MOST_POINTS
    assert (line.values[0], line.values[-1]) == ((1.0, 0.0), (1000.0, 0.999))
    assert len(json.dumps(line.values)) < 5_000


def test_steps_without_a_number_are_left_out() -> None:
    rows = _rows(3)
    assert points("run", MetricsTable(rows), Line("task_type_success/heat"), Axis.STEPS).values == [
        (2.0, 1.0),
        (3.0, 1.0),
    ]
    assert points("run", MetricsTable(rows), Line("nothing"), Axis.STEPS).values == []
    assert points("run", MetricsTable([]), Line("success_rate"), Axis.HOURS).values == []


def test_the_axis_counts_steps_environment_steps_or_hours() -> None:
    rows = _rows(3)
    assert x_values(MetricsTable(rows), Axis.STEPS).tolist() == [1, 2, 3]
    assert x_values(MetricsTable(rows), Axis.ENVIRONMENT).tolist() == [10, 20, 30]
    assert x_values(MetricsTable(rows), Axis.HOURS) == pytest.approx([0.01, 0.02, 0.03])


def test_phases_stand_at_the_same_places_so_that_they_stack() -> None:
    found = phase_points(MetricsTable(_rows(1000)), Axis.STEPS)
    assert list(found) == ["wait", "update"] == [phase for phase in PHASES if phase in found]
    assert [x for x, _ in found["wait"]] == [x for x, _ in found["update"]]
    assert found["wait"][0] == (1.0, 30.0)


def test_there_is_a_chart_for_each_kind_of_task_and_for_environments_where_there_are_several() -> None:
    rows = _rows(2)
    assert [chart.title for chart in task_type_charts([rows, []])] == ["examine", "heat"]
    assert environment_charts([rows]) == []
    two: list[Row] = [{"environments": {"maze": {}, "beach": {}}}]
    assert [chart.title for chart in environment_charts([rows, two])] == ["beach", "maze"]


def test_length_over_the_optimum_is_left_out_where_no_run_knows_it() -> None:
    chart = next(chart for chart in LEARNING if chart.key == "length_over_optimum")
    unknown, known = MetricsTable([{"version": 1}]), MetricsTable([{"version": 1, "length_over_optimum": 1.5}])
    assert not is_shown(chart, [unknown])
    assert is_shown(chart, [unknown, known])
    assert is_shown(LEARNING[0], [])


def test_the_histogram_is_of_the_latest_step() -> None:
    assert group_sizes(_rows(4)) == [5, 3, 0, 0, 0, 0]
    assert group_sizes([]) == []


def test_a_download_has_every_step_of_every_run_as_it_was_measured() -> None:
    text = as_csv({"a": _rows(500), "b": [{"version": 1, "success_rate": None}]}, [Line("success_rate")])
    table = list(csv.DictReader(io.StringIO(text)))
    assert len(table) == 501
    assert table[499] == {"run": "a", "version": "500", "success_rate": "0.998"}
    assert table[500] == {"run": "b", "version": "1", "success_rate": ""}
