"""Logging as JSON lines on stderr, with the ids of the job, group or session that a line is about."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

import orjson

_CONTEXT: Final = ("job", "step", "group", "episode", "session", "environment", "url")
"""Names that ``logger.info(..., extra={...})`` may set; anything else in ``extra`` is left out."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, service, logger, message, and what ``extra`` says."""

    def __init__(self, service: str) -> None:
        """``service`` is in every line."""
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, str | int] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _CONTEXT:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value if isinstance(value, int) else str(value)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def configure_logging(service: str, level: str = "info") -> None:
    """Send every logger's lines of at least ``level`` to stderr as JSON, in place of what was set up before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("asyncio", "aiohttp.access", "httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    for own_handlers in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(own_handlers).handlers.clear()
