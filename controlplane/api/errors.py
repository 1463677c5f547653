"""Errors as JSON: `detail` says in one sentence what is wrong; `problems`, where there are
several, name each place."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse


def add_error_handlers(app: FastAPI) -> None:
    """Input that does not fit its description is answered like every other error."""
    app.add_exception_handler(RequestValidationError, _answer_invalid)


async def _answer_invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [_problem(item) for item in error.errors()]
    detail = "; ".join(f"{problem['where']}: {problem['what']}" for problem in problems)
    return JSONResponse({"detail": detail, "problems": problems}, status_code=422)


def _problem(item: dict[str, Any]) -> dict[str, str]:
    where: Sequence[int | str] = item["loc"]
    return {"where": ".".join(str(part) for part in where), "what": item["msg"]}
