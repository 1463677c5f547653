"""What a list of requests can be asked for, in a URL: shared by the API and the page.

An empty value means any, because that is what a plain form sends for an untouched field.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from controlplane.api.paging import DEFAULT_LIMIT, MAX_LIMIT
from controlplane.store.request_tables import RequestRow
from controlplane.store.requests import PageKey, RequestFilter
from dataplane.contract_terms import ObjectiveSignal
from dataplane.lifecycle import Disposition

PARAMETERS = (
    "deployment", "class", "tenant", "disposition", "in_contract", "missed", "since", "until",
    "limit", "after",
)  # fmt: skip
_DURATION = re.compile(r"(\d{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_DAY_NS = 86400 * 1_000_000_000
_MAX_NAME = 256
_REQUEST_END = "request."


class QueryError(ValueError):
    """A parameter that cannot be understood; `parameter` names it."""

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter}: {why}")
        self.parameter = parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQuery:
    """One page of one list."""

    wanted: RequestFilter
    limit: int
    after: PageKey | None
    after_request_id: str | None = None
    """Given instead of a key; see page_end."""
    missed: ObjectiveSignal | None = None
    """An objective; what it promised is still to be looked up (see missed)."""

    @property
    def is_first(self) -> bool:
        """It asks for the newest page."""
        return self.after is None and self.after_request_id is None

    def within(self, tenant: str | None) -> Self:
        """The same of `tenant` alone, whatever else was asked for; None: of all."""
        return replace(self, wanted=replace(self.wanted, only_tenant=tenant))


def parse_request_query(parameters: Mapping[str, str], now_unix_ns: int) -> RequestQuery:
    """Raises QueryError, which lists what is valid, for unknown names and bad values."""
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise QueryError(unknown[0], f"no such parameter; there are {', '.join(PARAMETERS)}")
    given = {name: value for name, value in parameters.items() if value != ""}
    since, until = parse_window(given.get("since"), given.get("until"), now_unix_ns)
    wanted = RequestFilter(
        deployment=_name(given, "deployment"),
        request_class=_name(given, "class"),
        tenant=_name(given, "tenant"),
        disposition=_one_of(given, "disposition", {word.value: word.value for word in Disposition}),
        in_contract=_one_of(given, "in_contract", {"true": True, "false": False}),
        since_unix_ns=since,
        until_unix_ns=until,
    )
    after = given.get("after", "")
    is_request = after.startswith(_REQUEST_END)
    return RequestQuery(
        wanted=wanted,
        limit=_limit(given),
        after=None if is_request else _after(after or None),
        after_request_id=after.removeprefix(_REQUEST_END) if is_request else None,
        missed=_one_of(given, "missed", {signal.value: signal for signal in ObjectiveSignal}),
    )


def page_end(last: RequestRow, only_tenant: str | None) -> str:
    """What to give as `after` for the page behind `last`. Who sees one tenant alone is told no
    number that counts the requests of others, and names the request instead."""
    return str(PageKey.of(last)) if only_tenant is None else f"{_REQUEST_END}{last.request_id}"


def _name(given: Mapping[str, str], parameter: str) -> str | None:
    value = given.get(parameter)
    if value is not None and len(value) > _MAX_NAME:
        raise QueryError(parameter, f"longer than {_MAX_NAME} characters")
    return value


def _one_of(given: Mapping[str, str], parameter: str, values: Mapping[str, Any]) -> Any:
    word = given.get(parameter)
    if word is None:
        return None
    if word not in values:
        raise QueryError(parameter, f"{word[:64]!r} is none of {', '.join(values)}")
    return values[word]


def parse_window(
    since: str | None, until: str | None, now_unix_ns: int
) -> tuple[int | None, int | None]:
    """Both ends, None where nothing (or empty text) is given. Raises QueryError, also for a
    window that ends before it begins: nothing could ever lie in it."""
    first = parse_instant("since", since, now_unix_ns) if since else None
    last = parse_instant("until", until, now_unix_ns) if until else None
    if first is not None and last is not None and first > last:
        raise QueryError(
            "since", f"{(since or '')[:64]!r} is later than until, {(until or '')[:64]!r}"
        )
    return first, last


def parse_instant(parameter: str, text: str, now_unix_ns: int) -> int:
    """An age such as 30m, a time of day such as 02:14 (the last one, UTC), or an ISO 8601 time
    (UTC unless it says otherwise), in nanoseconds since the epoch. Raises QueryError.
    """
    at = _last_time_of_day(text, now_unix_ns)
    if at is not None:
        return at
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        seconds = int(duration[1]) * _SECONDS[duration[2]]
        return max(0, now_unix_ns - seconds * 1_000_000_000)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.year < 1970:
        raise QueryError(
            parameter,
            f"{text[:64]!r} is neither an age such as 30m, 6h or 2d, nor a time such as 02:14 "
            "or 2026-11-28T02:14",
        )
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return int(max(0.0, instant.timestamp()) * 1_000_000_000)


def _last_time_of_day(text: str, now_unix_ns: int) -> int | None:
    match = _TIME_OF_DAY.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    today = now_unix_ns // _DAY_NS * _DAY_NS
    at = today + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000
    return at if at <= now_unix_ns else max(0, at - _DAY_NS)


def _limit(given: Mapping[str, str]) -> int:
    text = given.get("limit", str(DEFAULT_LIMIT))
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_LIMIT):
        raise QueryError("limit", f"{text[:64]!r} is no number from 1 to {MAX_LIMIT}")
    return int(text)


def _after(text: str | None) -> PageKey | None:
    if text is None:
        return None
    try:
        return PageKey.parse(text)
    except ValueError as error:
        raise QueryError("after", "is no page key; take it from `next` of a list") from error
