"""Logging to standard error as JSON lines, with the ids of the job, group, session or request that a line is about.

``GAGPO_LOG_FORMAT`` is ``json`` or ``text`` (text on a terminal, else JSON); ``GAGPO_LOG_LEVEL`` is the least level.
"""

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, TextIO

import orjson

LOG_FORMAT: Final = "GAGPO_LOG_FORMAT"
LOG_LEVEL: Final = "GAGPO_LOG_LEVEL"

Id = str | int

_IDS: Final = ("job", "step", "group", "episode", "session", "environment", "url", "request")
"""Names that ``logger.info(..., extra={...})`` may set; anything else in ``extra`` is left out."""

_NO_IDS: Final[Mapping[str, Id]] = {}

_ids: ContextVar[Mapping[str, Id]] = ContextVar("ids", default=_NO_IDS)

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Id of the HTTP request being answered. Beside the other ids, because setting it must cost next to nothing."""

_SECRETS: Final = re.compile(r"(?<=://)[^\s/@\"'\\]*:[^\s/@\"'\\]*(?=@)|(?<=\bBearer )[\w.~+/=-]+", re.IGNORECASE)
"""User and password in a URL, and what follows the word Bearer."""


@contextmanager
def log_context(
    *, job: str | None = None, step: int | None = None, group: int | None = None, session: str | None = None
) -> Iterator[None]:
    """Give these ids to every line that is logged inside the ``with`` block, and in the tasks it starts."""
    given = {"job": job, "step": step, "group": group, "session": session}
    token = _ids.set({**_ids.get(), **{name: value for name, value in given.items() if value is not None}})
    try:
        yield
    finally:
        _ids.reset(token)


def without_secrets(text: str) -> str:
    """The text with passwords in URLs and bearer tokens blotted out."""
    return _SECRETS.sub("***", text)


def ids_of(record: logging.LogRecord) -> dict[str, Id]:
    """The ids that a line is about: of its context, and its own."""
    found = dict(_ids.get())
    if (request := request_id.get()) is not None:
        found["request"] = request
    for name in _IDS:
        if (value := getattr(record, name, None)) is not None:
            found[name] = value if isinstance(value, int) else str(value)
    return found


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, service, logger, message, and the ids."""

    def __init__(self, service: str) -> None:
        """``service`` is in every line."""
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, Id] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **ids_of(record),
        }
        if record.exc_info:
            line["error"] = without_secrets(self.formatException(record.exc_info))
        return _encoded(line)


def _encoded(line: dict[str, Id]) -> str:
    try:
        return orjson.dumps(line).decode()
    except TypeError:  # not valid Unicode (a file's name, say), or a number beyond 64 bits: keep the line all the same
        return orjson.dumps({name: repr(value) for name, value in line.items()}).decode()


class TextLines(logging.Formatter):
    """The same for a person at a terminal."""

    def __init__(self, service: str) -> None:
        """``service`` is in every line."""
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, service, message and ids; a traceback follows on lines of its own."""
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        about = " ".join(f"{name}={value}" for name, value in ids_of(record).items())
        text = f"{time} {record.levelname} {self._service}: {record.getMessage()}" + (f" [{about}]" if about else "")
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return without_secrets(text)


def readable(line: str) -> str:
    """A line of `JsonLines` as `TextLines` would put it, more or less; any other line as it is."""
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line
    if not isinstance(content, dict) or not {"time", "level", "message"} <= content.keys():
        return line
    about = " ".join(f"{name}={content[name]}" for name in _IDS if name in content)
    text = f"{str(content['time'])[11:19]} {str(content['level']).upper()} {content['message']}"
    return "\n".join(part for part in (f"{text} [{about}]" if about else text, content.get("error")) if part)


def log_format(stream: TextIO) -> str:
    """``json`` or ``text``, as ``GAGPO_LOG_FORMAT`` says or the stream suggests.

    Raises `ValueError` for a format there is not.
    """
    wanted = os.environ.get(LOG_FORMAT, "") or ("text" if stream.isatty() else "json")
    if wanted not in ("json", "text"):
        raise ValueError(f"{LOG_FORMAT} = {wanted!r}: the formats are json and text")
    return wanted


def log_handler(service: str, stream: TextIO | None = None) -> logging.Handler:
    """A handler that writes a service's lines to ``stream``, standard error by default. Raises as `log_format`."""
    chosen = stream or sys.stderr
    handler = logging.StreamHandler(chosen)
    handler.setFormatter(JsonLines(service) if log_format(chosen) == "json" else TextLines(service))
    return handler


def log_level(given: str | None = None) -> str:
    """A level's name in capitals: the one given, else of ``GAGPO_LOG_LEVEL``, else INFO.

    Raises `ValueError` for a level there is not.
    """
    wanted = given or os.environ.get(LOG_LEVEL, "") or "info"
    if wanted.upper() not in logging.getLevelNamesMapping():
        raise ValueError(f"{LOG_LEVEL} = {wanted!r}: the levels are debug, info, warning, error and critical")
    return wanted.upper()


def configure_logging(service: str, level: str | None = None, stream: TextIO | None = None) -> None:
    """Send every logger's lines of at least ``level`` to ``stream``, in place of what was set up before.

    Raises `ValueError` where a variable names a format or a level that there is not.
    """
    root = logging.getLogger()
    root.handlers[:] = [log_handler(service, stream)]
    root.setLevel(log_level(level))
    for noisy in ("asyncio", "aiohttp.access", "httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    for own_handlers in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(own_handlers).handlers.clear()
        logging.getLogger(own_handlers).propagate = True
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that ends the process is logged like any other: on one line, and without secrets."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        logging.getLogger().critical("ended by an error", exc_info=(kind, error, trace))
