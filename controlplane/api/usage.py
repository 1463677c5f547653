"""What was used and what it cost: by deployment, class and tenant, over a time.

The cost of a deployment is that of all its replicas' hours, idle ones included. It is shared out
by the engines' time that requests took, so that who used more carries more of what stood idle
for everybody; without a price, or where nobody was measured, no cost is told.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request

from controlplane.api.authorization import tenant_of
from controlplane.api.request_query import QueryError, parse_window
from controlplane.api.usage_views import UsageView, view_usage
from controlplane.store.database import Database
from controlplane.store.replica_hours import read_replica_costs
from controlplane.store.usage import UsageKey, read_usage
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["usage"])

DEFAULT_SINCE = "1d"
GROUPS = ("deployment", "class", "tenant")
_MINUTE_NS = 60 * 10**9
_MAX_NAME = 256

Text = Annotated[str | None, Query(max_length=_MAX_NAME)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """What is asked for. None: any."""

    start_unix_ns: int
    """A whole minute."""
    end_unix_ns: int
    deployment: str | None
    request_class: str | None
    tenant: str | None
    only_tenant: str | None
    """Whose use whoever asks may see at all."""
    groups: tuple[str, ...]
    """Of GROUPS: what each row is of."""

    def takes(self, key: UsageKey) -> bool:
        """Whether that use is asked for."""
        wanted = (self.deployment, self.request_class, self.tenant)
        return all(name in (None, of) for name, of in zip(wanted, key, strict=True))


@router.get("/usage")
def get_usage(
    request: Request,
    deployment: Text = None,
    request_class: Annotated[str | None, Query(alias="class", max_length=_MAX_NAME)] = None,
    tenant: Text = None,
    since: Text = None,
    until: Text = None,
    by: Text = None,
) -> UsageView:
    """Tokens, engine seconds, KV block-seconds and cost of what arrived in a time.

    `since` (1d by default) and `until` are an age such as 6h, a time such as 02:14 or an ISO 8601
    time, of whole minutes. `by` says what a row is of: any of deployment, class and tenant, with
    commas between. Who is bound to a tenant sees its use alone, and no cost.
    """
    try:
        query = parse_usage_query(
            deployment, request_class, tenant, since, until, by, wall_clock(), tenant_of(request)
        )
    except QueryError as error:
        raise HTTPException(422, str(error)) from error
    state = request.app.state
    return read_view(state.config_db, state.request_db, query)


def parse_usage_query(
    deployment: str | None,
    request_class: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    by: str | None,
    now_unix_ns: int,
    only_tenant: str | None,
) -> UsageQuery:
    """Empty text means any. Raises QueryError, which lists what is valid."""
    first, last = parse_window(since or DEFAULT_SINCE, until, now_unix_ns)
    assert first is not None
    if first > now_unix_ns:
        raise QueryError("since", f"{(since or '')[:64]!r} is still to come")
    return UsageQuery(
        start_unix_ns=first // _MINUTE_NS * _MINUTE_NS,
        end_unix_ns=_end(last, now_unix_ns),
        deployment=deployment or None,
        request_class=request_class or None,
        tenant=tenant or None,
        only_tenant=only_tenant,
        groups=_groups(by),
    )


def read_view(config_db: Database, request_db: Database, query: UsageQuery) -> UsageView:
    """Everything at once; the same for API, page and command."""
    start_unix = query.start_unix_ns // 10**9
    end_unix = -(-query.end_unix_ns // _MINUTE_NS) * 60
    with request_db.reading() as session:
        usage = read_usage(session, start_unix, end_unix, query.only_tenant)
    costs = {}
    if query.only_tenant is None:
        with config_db.reading() as session:
            costs = read_replica_costs(session, query.start_unix_ns, query.end_unix_ns)
    return view_usage(query, usage, costs)


def _end(last: int | None, now_unix_ns: int) -> int:
    """A whole minute, or now: nothing was used later than that."""
    if last is None or last >= now_unix_ns:
        return now_unix_ns
    return last // _MINUTE_NS * _MINUTE_NS


def _groups(by: str | None) -> tuple[str, ...]:
    if not by:
        return GROUPS
    wanted = by.split(",")
    unknown = [word for word in wanted if word not in GROUPS]
    if unknown:
        raise QueryError("by", f"{unknown[0][:32]!r} is none of {', '.join(GROUPS)}")
    return tuple(word for word in GROUPS if word in wanted)
