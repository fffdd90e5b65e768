"""Log lines are JSON, with the ids that they are about."""

import asyncio
import json
import logging
import subprocess
import sys

import pytest

from shared.telemetry import JsonLines, configure_logging, log_context, readable, request_id, without_secrets
from tests.processes import REPOSITORY


@pytest.fixture(autouse=True)
def _restore_logging(monkeypatch: pytest.MonkeyPatch) -> object:
    for name in ("GAGPO_LOG_FORMAT", "GAGPO_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, sys.excepthook
    yield
    sys.excepthook = hook
    logging.captureWarnings(False)
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


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


async def test_ids_of_the_context_are_in_the_lines_of_the_tasks_within_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("orchestrator")

    async def work() -> None:
        logging.getLogger("x").info("inside", extra={"group": 9, "session": "s"})

    with log_context(job="j", step=0, group=1):
        with log_context(step=2):
            await asyncio.gather(asyncio.create_task(work()))
        logging.getLogger("x").info("after")
    logging.getLogger("x").info("outside")
    inside, after, outside = logged(capsys)
    assert {name: inside[name] for name in ("job", "step", "group", "session")} == {
        "job": "j",
        "step": 2,
        "group": 9,  # the line's own id goes before the context's
        "session": "s",
    }
    assert (after["step"], after["group"]) == (0, 1)
    assert not outside.keys() & {"job", "step", "group"}


async def test_the_request_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("s")
    request_id.set("r-1")
    logging.getLogger("x").info("answering")
    assert logged(capsys)[0]["request"] == "r-1"


@pytest.mark.parametrize("name", ["GAGPO_LOG_FORMAT", "GAGPO_LOG_LEVEL"])
def test_an_unknown_format_or_level_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "loud")
    with pytest.raises(ValueError, match=f"{name} = 'loud'"):
        configure_logging("s")


def test_text_for_people_has_the_same_content(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GAGPO_LOG_FORMAT", "text")
    monkeypatch.setenv("GAGPO_LOG_LEVEL", "warning")
    configure_logging("s")
    logging.getLogger("x").info("not shown")
    with log_context(job="j", group=3):
        logging.getLogger("x").warning("careful")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING s: careful [job=j group=3]")


def test_a_line_of_json_can_be_read_by_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("s")
    logging.getLogger("x").warning("two\nlines", extra={"group": 3})
    text = readable(capsys.readouterr().err.strip())
    assert text.endswith("WARNING two\nlines [group=3]")
    for other in ("plain words", '{"some": "json"}', "[1]", "{", ""):
        assert readable(other) == other


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("redis://:s3cret@host:6379/0 is away", "redis://***@host:6379/0 is away"),
        ("redis://user:s3cret@host/0", "redis://***@host/0"),
        ("Authorization: Bearer s3cret.s3cret-~+/=", "Authorization: Bearer ***"),
        ("'authorization': 'bearer s3cret'", "'authorization': 'bearer ***'"),
        ("http://host:8001/v1/sessions/a:b@c", "http://host:8001/v1/sessions/a:b@c"),
        ("http://10.0.0.1:8001 and me@example.org", "http://10.0.0.1:8001 and me@example.org"),
        ("Bearer of bad news", "Bearer *** bad news"),  # too much rather than too little
    ],
)
def test_passwords_and_tokens_are_blotted_out(said: str, shown: str) -> None:
    assert without_secrets(said) == shown


def test_no_secret_is_logged_with_an_error_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ("json", "text"):
        monkeypatch.setenv("GAGPO_LOG_FORMAT", form)
        configure_logging("s")
        try:
            raise ConnectionError("redis://:s3cret@host:6379/0 refused")
        except ConnectionError:
            logging.getLogger("x").exception("no %s", "redis://:s3cret@host:6379/0")
    said = capsys.readouterr().err
    assert said.count("***@host") >= 4
    assert "s3cret" not in said


def test_an_error_that_ends_the_process_is_logged_like_any_other() -> None:
    script = (
        "from shared.telemetry import configure_logging; configure_logging('s');"
        "url = 'redis://:' + 's3cret@host'; raise OSError(url)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=REPOSITORY)
    (line,) = ran.stderr.splitlines()
    assert json.loads(line)["level"] == "critical"
    assert "OSError: redis://***@host" in json.loads(line)["error"]
    assert ran.returncode == 1


def test_a_line_survives_what_is_no_unicode(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("s")
    logging.getLogger("x").info("file %s", "\udcff", extra={"group": 2**70})
    assert "udcff" in str(logged(capsys)[0]["message"])
