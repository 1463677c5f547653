"""Errors as JSON: `detail` says in one sentence what is wrong; `problems`, where there are
several, name each place."""

from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError

from controlplane.store.connection import words_of
from controlplane.store.room import NoRoomError, is_out_of_room
from dataplane.invalid_input import say_invalid


class ErrorBody(BaseModel):
    """Every answer that is an error."""

    detail: str
    """In one sentence: what is wrong, and the remedy."""


class PlaceOfError(BaseModel):
    """One thing that is wrong with a call."""

    where: str
    what: str


class InvalidBody(ErrorBody):
    """A call that does not fit its description."""

    problems: list[PlaceOfError] | None = None
    """Each place, where there are several."""


ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The call cannot be read"},
    401: {"model": ErrorBody, "description": "Nobody says who is calling"},
    403: {"model": ErrorBody, "description": "Who is calling may not"},
    404: {"model": ErrorBody, "description": "There is no such thing"},
    409: {"model": ErrorBody, "description": "It contradicts what is there"},
    413: {"model": ErrorBody, "description": "The body is too large"},
    415: {"model": ErrorBody, "description": "A body of this type is not read"},
    422: {"model": InvalidBody, "description": "The call says something that cannot be meant"},
    429: {"model": ErrorBody, "description": "Too many attempts"},
    503: {"model": ErrorBody, "description": "Not now; try again"},
    507: {"model": ErrorBody, "description": "There is no room to store it"},
}
"""What any route may answer beside its own; for the API's description."""


class RpcStatus(BaseModel):
    """An error as OTLP tells it."""

    code: int
    message: str


RPC_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": RpcStatus, "content": {"application/x-protobuf": {}}}
    for status in (400, 408, 413, 415, 503)
}
"""Instead, where OTLP is spoken."""

_RETRY_SECONDS = "5"
_log = structlog.get_logger(__name__)


def add_error_handlers(app: FastAPI) -> None:
    """Input that does not fit its description is answered like every other error."""
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(NoRoomError, _answer_no_room)
    app.add_exception_handler(DBAPIError, _answer_database_error)


async def _answer_invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [_problem(item) for item in error.errors()]
    detail = "; ".join(f"{problem['where']}: {problem['what']}" for problem in problems)
    return JSONResponse({"detail": detail, "problems": problems}, status_code=422)


async def _answer_no_room(_request: Request, error: Exception) -> JSONResponse:
    headers = {"retry-after": _RETRY_SECONDS}
    return JSONResponse({"detail": str(error)}, status_code=507, headers=headers)


async def _answer_database_error(_request: Request, error: Exception) -> JSONResponse:
    """What a database cannot do now is no fault of the caller, and may go better later."""
    assert isinstance(error, DBAPIError)
    if is_out_of_room(error):
        full = "the database has no room; nothing was stored. Make room on its disk"
        return JSONResponse({"detail": full}, status_code=507)
    if not isinstance(error, OperationalError | InternalError):
        raise error
    why = words_of(error)
    _log.warning("the database did not answer", error=why)
    detail = (
        f"the database did not answer ({why}), and nothing was stored. Try again; if it goes on, "
        f"`pilothouse db check` says how the databases stand"
    )
    headers = {"retry-after": _RETRY_SECONDS}
    return JSONResponse({"detail": detail}, status_code=503, headers=headers)


def _problem(item: dict[str, Any]) -> dict[str, str]:
    where: Sequence[int | str] = item["loc"]
    what = say_invalid(item["type"], item["msg"])
    return {"where": ".".join(str(part) for part in where), "what": what}
