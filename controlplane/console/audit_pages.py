"""The audit: who changed what, when and why."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from controlplane.api.audit import create_filter, read_page
from controlplane.api.request_query import QueryError
from controlplane.console.answers import error_page, page
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

_FILTERS = ("actor", "action", "subject", "since", "until")
_PAGE = 100
_MAX_TEXT = 320


@router.get("/audit")
def audit(request: Request) -> Response:
    """Changes, the newest first, with what differs."""
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    try:
        after = _after(request.query_params.get("after", ""))
        for name, text in given.items():
            if len(text) > _MAX_TEXT:
                raise QueryError(name, f"longer than {_MAX_TEXT} characters")
        view = read_page(request.app.state.config_db, create_filter(**given), _PAGE, after)
    except QueryError as error:
        return error_page(422, f"The audit cannot be shown: {error}.", menu="audit")
    kept = {name: text for name, text in given.items() if text}
    return page(
        "audit.html",
        page="audit",
        view=view,
        given=given,
        has_filters=bool(kept),
        is_first=after is None,
        next_url="/audit?" + urlencode({**kept, "after": view.next}) if view.next else None,
        now=wall_clock(),
    )


def _after(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) < 2**63):
        raise QueryError("after", "is no number of an event; take the link of a page")
    return int(text)
