"""The server's log: structlog, one event a line on standard error, as JSON for programs or in columns for people."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import structlog

from board.core.secrecy import hide_tokens, hide_tokens_in
from schema.codec import encode

if TYPE_CHECKING:
    from board.settings import ServerSettings

request_id: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The id of the request that is being carried out, in every line that is logged meanwhile; empty for none."""

caller: Final[ContextVar[str]] = ContextVar("caller", default="")
"""The worker whose request it is."""

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(settings: ServerSettings) -> None:
    """Set up the log of this process. uvicorn's own lines pass through it as well."""
    level = _LEVELS[settings.log_level]
    json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shared: list[Any] = [_add_request, structlog.processors.add_log_level, stamp]
    processors: list[Any]
    if json:
        processors = [*shared, structlog.processors.format_exc_info, _drop_none, _render_json]
        factory: Any = structlog.BytesLoggerFactory(sys.stderr.buffer)
    else:
        processors = [*shared, _drop_none, _Console(colors=sys.stderr.isatty())]
        factory = structlog.PrintLoggerFactory(sys.stderr)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    _pass_on(level)


def _add_request(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    for var in (request_id, caller):
        if said := var.get():
            event.setdefault("worker" if var is caller else "request_id", said)
    return event


def _drop_none(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if value is not None}


def _render_json(_logger: object, _method: str, event: dict[str, Any]) -> bytes:
    return hide_tokens_in(encode(event))


class _Console(structlog.dev.ConsoleRenderer):
    def __call__(self, logger: Any, name: str, event_dict: Any) -> str:  # noqa: ANN401 -- structlog's
        return hide_tokens(super().__call__(logger, name, event_dict))


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger()
        text = record.getMessage()
        logger.log(record.levelno, "library.log", logger=record.name, text=text, exc_info=record.exc_info or None)


def _pass_on(level: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [_Handler()]
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger("mcp").setLevel(logging.WARNING)
