"""Incidents in the terminal."""

from collections.abc import Iterable, Iterator
from typing import Any

from controlplane.api.incident_views import (
    FindingView,
    IncidentChange,
    IncidentDetail,
    IncidentLine,
    IncidentList,
)
from controlplane.cli.terminal import instant, table

_MAX_CHANGES = 8


def incident_table(found: IncidentList, state: str) -> str:
    """One line for each."""
    if not found.incidents:
        return "no incident" if state == "all" else f"no incident is {state}"
    rows = [("ID", "DEPLOYMENT", "WHAT", "SURENESS", "STATE", "SINCE", "LAST SEEN", "LOOKED AFTER")]
    rows += [
        (
            each.incident_id,
            each.deployment,
            each.mechanism,
            each.confidence,
            _state(each),
            instant(each.since_unix_ns or each.opened_at_unix_ns),
            f"{_seconds(found.as_of_unix_ns - each.last_seen_at_unix_ns)} ago",
            each.acknowledged_by or "-",
        )
        for each in found.incidents
    ]
    return table(rows)


def incident_text(view: IncidentDetail) -> str:
    """One whole: what, since when, why, what was changed before, who is hurt, what to do."""
    return "\n".join(
        [
            *_head(view.incident, view.as_of_unix_ns),
            *(line for each in view.findings for line in _finding(each)),
            *_changes(view.changes),
            *_hurt(view),
            *_timeline(view),
        ]
    )


def _head(incident: IncidentLine, now_unix_ns: int) -> Iterator[str]:
    yield (
        f"{incident.incident_id}: {incident.deployment}: {incident.mechanism} "
        f"({incident.confidence}), {_state(incident)}"
    )
    yield f"  {incident.meaning}"
    if incident.since_unix_ns is not None:
        yield f"  since {instant(incident.since_unix_ns)}, by the signal that tells it"
    else:
        yield f"  found {instant(incident.opened_at_unix_ns)}; since when could not be seen"
    if incident.resolved_at_unix_ns is not None:
        yield f"  resolved {instant(incident.resolved_at_unix_ns)}"
    else:
        yield f"  last seen {_seconds(now_unix_ns - incident.last_seen_at_unix_ns)} ago"
    if incident.acknowledged_by is not None:
        yield f"  {incident.acknowledged_by} looks after it"
    if incident.runbook is not None:
        name = incident.runbook.rsplit("/", 1)[-1].removesuffix(".md")
        yield f"  runbook: pilothouse runbook {name}"


def _finding(each: FindingView) -> Iterator[str]:
    finding = each.finding
    detail = finding.get("detail")
    shown = f" [{detail}]" if detail else ""
    yield ""
    times = "once" if each.num_seen == 1 else f"{each.num_seen} times"
    yield f"{each.mechanism} ({each.confidence}){shown}, seen {times}"
    yield from _items("What speaks for it", finding.get("evidence"))
    yield from _items("What else was weighed", finding.get("against"))
    yield from _items("Would make it surer", finding.get("needs"))
    remedy = [finding.get("remedy"), finding.get("hides") and f"May hide: {finding['hides']}"]
    yield from _items("What to do", [each for each in remedy if each])


def _items(title: str, said: Any) -> Iterator[str]:
    lines = said if isinstance(said, list) else []
    if lines:
        yield f"  {title}"
        yield from (f"    - {line}" for line in lines)


def _changes(changes: Iterable[IncidentChange]) -> Iterator[str]:
    before = [each for each in changes if each.lag_seconds >= 0]
    if not before:
        return
    yield ""
    yield "Changed before it began, which makes none of it a cause"
    for each in before[:_MAX_CHANGES]:
        yield f"  {_seconds(round(each.lag_seconds * 1e9))} before: {each.text}"
    if len(before) > _MAX_CHANGES:
        yield f"  and {len(before) - _MAX_CHANGES} more: see them with -o json"


def _hurt(view: IncidentDetail) -> Iterator[str]:
    yield ""
    if view.num_refused or view.num_failed:
        yield (
            f"Of {view.num_offered} requests while it lasted: {view.num_refused} refused, "
            f"{view.num_failed} without a whole answer"
        )
    if not view.hurt:
        yield (
            f"None of {view.num_judged} requests that were judged missed its contract"
            if view.num_judged
            else "Who else is hurt is unknown: no request was held against a contract"
            if view.num_refused or view.num_failed
            else "Who is hurt is unknown: no request was judged while it lasted"
        )
        return
    yield "Who is hurt"
    for each in view.hurt:
        who = f"class {each.request_class or 'none'}, tenant {each.tenant or 'none'}"
        yield f"  {who}: {each.num_missed} of {each.num_judged} missed the contract"


def _timeline(view: IncidentDetail) -> Iterator[str]:
    yield ""
    yield "Timeline"
    for event in view.events:
        yield f"  {instant(event.at_unix_ns)}  {event.kind} by {event.actor}: {event.what}"


def _state(incident: IncidentLine) -> str:
    if not incident.num_reopened:
        return incident.state
    times = "once" if incident.num_reopened == 1 else f"{incident.num_reopened} times"
    return f"{incident.state}, reopened {times}"


def _seconds(nanoseconds: int) -> str:
    seconds = max(0, round(nanoseconds / 1e9))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
