"""Logs: one JSON object a line on stderr, each with the request and the trace it is about.

Own code logs through structlog, libraries through the standard module; both leave by the
same door. Tracebacks are plain text without local variables: those could hold a prompt.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator

import structlog
from structlog.typing import Processor

REQUEST_ID_KEY = "request_id"
TRACE_ID_KEY = "trace_id"
PROCESS_KEY = "process"


def configure_logs(process: str, level: int = logging.INFO, **context: str) -> None:
    """Send all logs of this process to stderr as JSON lines.

    `process` and `context` (such as gateway_id) are on every line. Called once, by the
    process's main; a second call replaces the first.
    """
    _leave_out_what_no_line_says()
    fixed = {PROCESS_KEY: process, **context}
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _add(fixed),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    _route_uvicorn()
    # httpx logs every request it makes at info, and we make one a second.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _leave_out_what_no_line_says() -> None:
    """Thread, process and place in the code are looked up for each line, at a third of its cost
    (see "Optimization" in the standard library's documentation of logging)."""
    logging._srcfile = None
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False


@contextlib.contextmanager
def request_context(request_id: str, trace_id: str) -> Iterator[None]:
    """While inside, every line of this task and of those it starts names the request."""
    with structlog.contextvars.bound_contextvars(
        **{REQUEST_ID_KEY: request_id, TRACE_ID_KEY: trace_id}
    ):
        yield


def trace_id_of(traceparent: str | None) -> str:
    """The trace id of a W3C traceparent; empty where there is none."""
    parts = (traceparent or "").split("-")
    return parts[1] if len(parts) >= 4 else ""


def _add(fixed: dict[str, str]) -> Processor:
    def add(
        _logger: object, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        for key, value in fixed.items():
            event.setdefault(key, value)
        return event

    return add


def _route_uvicorn() -> None:
    """uvicorn must log through the root; its access log would repeat every record."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True
