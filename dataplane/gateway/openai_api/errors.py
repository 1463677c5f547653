"""Errors as OpenAI's clients expect them: a status and {"error": {message, type, param, code}}."""

from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiError:
    """One error answer."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    """The offending field, dotted."""
    retry_after_seconds: int | None = None
    policy_revision: str | None = None
    """Of the policy that refused it; None: no policy did."""

    @property
    def type(self) -> str:
        """OpenAI's coarse kind, which follows from the status."""
        if self.status == 429:
            return "rate_limit_error"
        if self.status == 503:
            return "service_unavailable_error"
        return "invalid_request_error" if self.status < 500 else "server_error"

    def body(self) -> dict[str, Any]:
        """The JSON document."""
        error = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        if self.policy_revision is not None:
            error["policy_revision"] = self.policy_revision
        return {"error": error}

    def encode(self) -> bytes:
        """The document as bytes."""
        return msgspec.json.encode(self.body())


class ApiRefusalError(Exception):
    """Raised while reading a request; the flow turns it into the answer it carries."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


def refuse(
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    status: int = 400,
    retry_after_seconds: int | None = None,
) -> ApiRefusalError:
    """The exception for one refused request."""
    return ApiRefusalError(
        ApiError(
            status=status,
            message=message,
            code=code,
            param=param,
            retry_after_seconds=retry_after_seconds,
        )
    )
