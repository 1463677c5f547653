"""What goes wrong, as a page that says what to do; below /api it stays JSON."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException

from controlplane.console.answers import error_page

_DATABASE_ERRORS = (DBAPIError, PoolTimeoutError, SQLAlchemyError)
_log = structlog.get_logger(__name__)

Answer = Callable[[Request, Any], Response | Awaitable[Response]]


def install_error_pages(app: FastAPI) -> None:
    """Answer browsers with pages. What the API answers to programs stays as it was before."""
    app.add_exception_handler(HTTPException, _answer_http_error)
    for kind in _DATABASE_ERRORS:
        answer = app.exception_handlers.get(kind, _answer_program)
        app.add_exception_handler(kind, _page_or(answer))


def wants_page(request: Request) -> bool:
    """A browser asks, and for a page."""
    path = request.url.path
    is_api = path.startswith("/api/") or path in ("/metrics", "/healthz", "/openapi.json")
    return not is_api and "text/html" in request.headers.get("accept", "")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if not wants_page(request):
        return await http_exception_handler(request, error)
    what = "There is no such page." if error.status_code == 404 else str(error.detail)
    return error_page(error.status_code, what)


def _page_or(answer_program: Answer) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        if not wants_page(request):
            answered = answer_program(request, error)
            return answered if isinstance(answered, Response) else await answered
        why = str(getattr(error, "orig", None) or type(error).__name__)
        _log.error("a page could not be read", path=request.url.path, error=str(error))
        return error_page(503, f"The control plane's database does not answer ({why[:200]}).")

    return answer


async def _answer_program(request: Request, error: Exception) -> Response:
    _log.error("the database did not answer", path=request.url.path, error=str(error))
    return JSONResponse({"detail": "the database did not answer; try again"}, 503)
