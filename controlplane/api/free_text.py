"""Text that callers choose: what no database and no answer can hold is refused where it comes in.

NUL is no text to PostgreSQL, and half a surrogate pair is none to UTF-8: either would only be
noticed where it is stored or sent back, as a failure of ours.
"""

import re
from typing import Annotated

from fastapi.responses import JSONResponse
from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


def check_free_text(text: str) -> str:
    """`text` as it is. Raises ValueError, naming the character that nothing can hold."""
    found = _UNUSABLE.search(text)
    if found:
        raise ValueError(f"the text holds the character U+{ord(found[0]):04X}: remove it")
    return text


FreeText = Annotated[str, AfterValidator(check_free_text)]
"""Of a body."""


class RefuseNul:
    """Refuses an address that holds NUL, in its path or its query, before any route reads it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _holds_nul(scope):
            detail = "the address holds the character U+0000 (%00): remove it"
            await JSONResponse({"detail": detail}, status_code=400)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _holds_nul(scope: Scope) -> bool:
    return "\x00" in scope["path"] or b"%00" in scope.get("query_string", b"")
