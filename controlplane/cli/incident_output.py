"""Incidents in the terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from controlplane.api.alert_views import AlertView
from controlplane.api.incident_views import (
    FindingView,
    IncidentChange,
    IncidentDetail,
    IncidentLine,
    IncidentList,
)
from controlplane.api.quantities import age
from controlplane.api.spent_views import SpentView
from controlplane.cli.silence_output import silenced_words
from controlplane.cli.terminal import continued, instant, table
from controlplane.console.budget_bar import how_it_stands

_MAX_CHANGES = 8
_MAX_SPELLS = 3
"""Before the last; the timeline has them all."""


def incident_table(found: IncidentList, state: str) -> str:
    """One line for each."""
    if not found.incidents:
        return "no incident" if state == "all" else f"no incident is {state}"
    heads = ("ID", "DEPLOYMENT", "WHAT", "SURENESS", "ALERTS", "STATE", "SINCE", "LAST SEEN")
    rows = [(*heads, "LOOKED AFTER")]
    rows += [
        (
            each.incident_id,
            each.deployment or "-",
            each.title,
            each.confidence or "-",
            _alerts(each),
            _state(each),
            instant(each.spells[-1].began_at_unix_ns),
            f"{age((found.as_of_unix_ns - each.last_seen_at_unix_ns) / 1e9)} ago",
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
            *(line for each in view.alerts for line in _alert(each, view.as_of_unix_ns)),
            *(line for each in view.findings for line in _finding(each)),
            *_changes(view),
            *_hurt(view),
            *(line for each in view.spent for line in _spent(each)),
            *_timeline(view),
        ]
    )


def _head(incident: IncidentLine, now_unix_ns: int) -> Iterator[str]:
    whose = incident.deployment or "the installation"
    sureness = f" ({incident.confidence})" if incident.confidence else ""
    yield f"{incident.incident_id}: {whose}: {incident.title}{sureness}, {_state(incident)}"
    if incident.mechanism is not None:
        yield f"  {incident.meaning}"
    yield from _times(incident)
    if incident.resolved_at_unix_ns is not None:
        yield f"  resolved {instant(incident.resolved_at_unix_ns)}"
    else:
        yield f"  last seen {age((now_unix_ns - incident.last_seen_at_unix_ns) / 1e9)} ago"
    if incident.acknowledged_by is not None:
        yield f"  {incident.acknowledged_by} looks after it"
    if incident.runbook is not None:
        name = incident.runbook.rsplit("/", 1)[-1].removesuffix(".md")
        yield f"  runbook: pilothouse runbook {name}"


def _times(incident: IncidentLine) -> Iterator[str]:
    """Since when, and of one that was reopened when it was open before."""
    *before, last = incident.spells
    if last.since_unix_ns is not None:
        yield f"  since {instant(last.since_unix_ns)}, by the signal that tells it"
    else:
        word = "found again" if before else "found"
        yield f"  {word} {instant(last.opened_at_unix_ns)}; since when could not be seen"
    for spell in before[: -_MAX_SPELLS - 1 : -1]:
        until = instant(spell.ended_at_unix_ns(last.opened_at_unix_ns))
        yield f"  and before from {instant(spell.began_at_unix_ns)} until {until}"
    if len(before) > _MAX_SPELLS:
        yield f"  and {len(before) - _MAX_SPELLS} times before that: see the timeline"


def _alert(alert: AlertView, now_unix_ns: int) -> Iterator[str]:
    """What it says, by whom, and where to read on."""
    yield ""
    grade = f", {alert.grade}" if alert.grade else ""
    where = f" at {alert.instance}" if alert.instance else ""
    times = f", {alert.num_times} times" if alert.num_times > 1 else ""
    state = "fires" if alert.ended_at_unix_ns is None else "ended"
    yield f"{alert.severity} {alert.name}{grade}{where}, {state}{times}: {alert.summary}"
    yield f"  {continued(alert.description, '  ')}"
    for told in alert.sources:
        until = "" if told.ended_at_unix_ns is None else f", to {instant(told.ended_at_unix_ns)}"
        ago = age((now_unix_ns - told.told_at_unix_ns) / 1e9)
        since = instant(told.started_at_unix_ns)
        yield f"  from {since}{until}, says {told.source}, last {ago} ago"
    if alert.contract_revision is not None:
        yield f"  by contract {alert.contract_revision}"
    if alert.silenced is not None:
        yield f"  {continued(silenced_words(alert.silenced), '  ')}"


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


def _changes(view: IncidentDetail) -> Iterator[str]:
    """For each time that it began, the last first: what was changed before."""
    spells = view.incident.spells
    for number, spell in reversed(list(enumerate(spells))):
        again = " again" if number else ""
        at = f" at {instant(spell.began_at_unix_ns)}" if len(spells) > 1 else ""
        before = [
            each
            for each in view.changes
            if each.lag_seconds >= 0 and each.began_at_unix_ns == spell.began_at_unix_ns
        ]
        yield from _changed_before(f"it began{again}{at}", before)


def _changed_before(what: str, before: Sequence[IncidentChange]) -> Iterator[str]:
    if not before:
        return
    yield ""
    yield f"Changed before {what}, which makes none of it a cause"
    for each in before[:_MAX_CHANGES]:
        yield f"  {age(each.lag_seconds)} before: {each.text}"
    if len(before) > _MAX_CHANGES:
        yield f"  and {len(before) - _MAX_CHANGES} more: see them with -o json"


def _hurt(view: IncidentDetail) -> Iterator[str]:
    yield ""
    lasted = "in the times it was open" if view.incident.num_reopened else "while it lasted"
    if view.num_refused or view.num_failed:
        yield (
            f"Of {view.num_offered} requests {lasted}: {view.num_refused} refused, "
            f"{view.num_failed} without a whole answer"
        )
    if not view.hurt:
        yield (
            f"None of {view.num_judged} requests that were judged missed its contract"
            if view.num_judged
            else "Who else is hurt is unknown: no request was held against a contract"
            if view.num_refused or view.num_failed
            else f"Who is hurt is unknown: no request was judged {lasted}"
        )
        return
    yield "Who is hurt"
    for each in view.hurt:
        who = f"class {each.request_class or 'none'}, tenant {each.tenant or 'none'}"
        yield f"  {who}: {each.num_missed} of {each.num_judged} missed the contract"


def _spent(spent: SpentView) -> Iterator[str]:
    """How the budget stands, and the last requests that spent it."""
    yield ""
    stands = "" if spent.standing is None else f": now it {how_it_stands(spent.standing)}"
    yield f"Budget of {spent.request_class} {spent.objective}{stands}"
    since, until = instant(spent.since_unix_ns), instant(spent.until_unix_ns)
    if not spent.requests:
        yield f"  no request that spent it is kept, from {since} to {until}"
        return
    yield f"  the last requests that spent it, from {since} to {until}"
    for each in spent.requests:
        ttft = "unknown" if each.ttft_seconds is None else f"{each.ttft_seconds:.3g} s"
        yield (
            f"    {instant(each.arrived_at_unix_ns)}  {each.request_id}  {each.disposition}, "
            f"TTFT {ttft}, tenant {each.tenant or 'unknown'}"
        )
    if spent.has_more:
        yield f"    more: /requests?{spent.requests_query}"


def _timeline(view: IncidentDetail) -> Iterator[str]:
    yield ""
    yield "Timeline"
    for event in view.events:
        words = continued(event.what, "    ")
        yield f"  {instant(event.at_unix_ns)}  {event.kind} by {event.actor}: {words}"


def _alerts(incident: IncidentLine) -> str:
    return f"{incident.num_firing} ({incident.severity})" if incident.severity else "-"


def _state(incident: IncidentLine) -> str:
    if not incident.num_reopened:
        return incident.state
    times = "once" if incident.num_reopened == 1 else f"{incident.num_reopened} times"
    return f"{incident.state}, reopened {times}"
