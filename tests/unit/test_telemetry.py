"""Log lines are JSON, with the ids that they are about."""

import json
import logging

import pytest

from shared.telemetry import JsonLines, configure_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_json_with_its_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("orchestrator", "info")
    logging.getLogger("x").info("group %d done", 3, extra={"step": 1, "group": 3, "secret": "no"})
    logging.getLogger("x").debug("not shown")
    (line,) = capsys.readouterr().err.splitlines()
    content = json.loads(line)
    assert content.pop("time").endswith("+00:00")
    assert content == {
        "level": "info",
        "service": "orchestrator",
        "logger": "x",
        "message": "group 3 done",
        "step": 1,
        "group": 3,
    }


def test_an_error_keeps_its_traceback_on_one_line() -> None:
    try:
        raise RuntimeError("broken\npipe")
    except RuntimeError as error:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", (), (RuntimeError, error, None))
    line = JsonLines("s").format(record)
    assert "\n" not in line
    assert "broken" in json.loads(line)["error"]
