"""Usage: who used what, and what it cost."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from controlplane.api.authorization import tenant_of
from controlplane.api.request_query import QueryError
from controlplane.api.usage import DEFAULT_SINCE, GROUPS, parse_usage_query, read_view
from controlplane.console.answers import error_page, page
from dataplane.clock import wall_clock

router = APIRouter(include_in_schema=False)

_FILTERS = ("deployment", "class", "tenant", "since", "until", "by")
_MAX_TEXT = 256
_AGES = (("1h", "hour"), ("1d", "day"), ("7d", "7 days"), ("30d", "30 days"))


@router.get("/usage")
def usage(request: Request) -> Response:
    """Rows by what is asked for, and what the replicas of each deployment cost."""
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    now, tenant = wall_clock(), tenant_of(request)
    try:
        for name, text in given.items():
            if len(text) > _MAX_TEXT:
                raise QueryError(name, f"longer than {_MAX_TEXT} characters")
        query = parse_usage_query(
            given["deployment"],
            given["class"],
            given["tenant"],
            given["since"],
            given["until"],
            given["by"],
            now,
            tenant,
        )
    except QueryError as error:
        return error_page(422, f"Usage cannot be shown: {error}.", menu="usage")
    state = request.app.state
    return page(
        "usage.html",
        page="usage",
        view=read_view(state.config_db, state.request_db, query),
        given=given,
        is_filtered=any(given[name] for name in ("deployment", "class", "tenant")),
        is_bound=tenant is not None,
        groups=[(text, value, _url(given, by=value)) for text, value in _choices(tenant)],
        by=given["by"] or ",".join(GROUPS),
        ages=[(text, age, _url(given, since=age, until="")) for age, text in _AGES],
        since=given["since"] or DEFAULT_SINCE,
        now=now,
    )


def _choices(tenant: str | None) -> list[tuple[str, str]]:
    """What rows can be of, as links: who sees one tenant has nothing to tell tenants apart."""
    singles = [(f"by {group}", group) for group in GROUPS if tenant is None or group != "tenant"]
    return [("all", ",".join(GROUPS)), *singles]


def _url(given: dict[str, str], **changed: str) -> str:
    kept = {name: text for name, text in {**given, **changed}.items() if text}
    return f"/usage?{urlencode(kept)}" if kept else "/usage"
