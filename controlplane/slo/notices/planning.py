"""What to tell now, by what fires and what people were told before. Pure.

Alerts are told deployment by deployment. As with Alertmanager and the rules that ship, a page keeps
the tickets of its deployment back, and a silence all that it covers. A page that is new is told at
once; anything else waits until five minutes have passed since the last message about the
deployment, so that one that comes and goes does not flood anybody. What goes on is told again after
four hours. What was told, or may have arrived, and ended while nobody could be told of it is told
for a day.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.slo.alert import REPEATED_EVERY_SECONDS, Alert, AlertSubject
from controlplane.slo.alert_windows import DAY, MINUTE, Severity
from controlplane.slo.evaluation import by_deployment
from controlplane.slo.notices.notice import Notice, NoticeKind
from controlplane.store.told_alerts import Group, Told

_NS = 10**9
GROUP_INTERVAL = 5 * MINUTE
GIVES_UP_AFTER = DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A message, and what people know when it has arrived."""

    group: Group
    notice: Notice | None
    """None: it is too late to tell."""
    told: Told | None
    begun: Told | None = None
    """What they may know from when it is sent until it arrived; None: no more than before."""


def plan_notices(
    firing: Sequence[Alert],
    told: Mapping[Group, Told],
    is_silenced: Callable[[AlertSubject], bool],
    console_url: str,
    now_unix_ns: int,
) -> list[Planned]:
    """What is due, pages first."""
    groups = by_deployment(firing)
    found = []
    for group in dict.fromkeys((*groups, *told)):
        alerts, before = groups.get(group, []), told.get(group)
        planned = _plan(group, alerts, before, is_silenced, now_unix_ns)
        if planned is not None:
            found.append(planned)
    found.sort(key=lambda each: each.notice is None or not _has_page(each.notice.firing))
    return [
        replace(each, notice=replace(each.notice, console_url=console_url))
        if each.notice is not None
        else each
        for each in found
    ]


def with_ends(
    told: Mapping[Group, Told], firing: Sequence[Alert], now_unix_ns: int
) -> dict[Group, Told]:
    """`told`, in which what fires no more has its end: when that was first seen, however much later
    it can be told."""
    now = {each.subject for each in firing}
    return {
        group: replace(
            before,
            alerts=tuple(
                replace(each, ended_at_unix_ns=None)
                if each.subject in now
                else _as_ended(each, now_unix_ns)
                for each in before.alerts
            ),
        )
        for group, before in told.items()
    }


def _plan(
    group: Group,
    firing: Sequence[Alert],
    before: Told | None,
    is_silenced: Callable[[AlertSubject], bool],
    now_unix_ns: int,
) -> Planned | None:
    tellable, num_held_back = _tellable(firing, is_silenced)
    told = before.alerts if before is not None else ()
    known = {each.subject for each in told} if _is_sure(before) else set()
    now = {each.subject for each in firing}
    new = [each for each in tellable if each.subject not in known]
    ended = [_as_ended(each, now_unix_ns) for each in told if each.subject not in now]
    is_over = before is not None and not new and len(ended) == len(told)
    if is_over and _seconds_over(ended, now_unix_ns) >= GIVES_UP_AFTER:
        return Planned(group=group, notice=None, told=None)
    age = _age_seconds(before, now_unix_ns)
    kind = _kind(new, ended, tellable, is_over=is_over, age_seconds=age)
    if kind is None:
        return None
    notice = Notice(
        kind=kind,
        deployment=group,
        at_unix_ns=now_unix_ns,
        firing=tuple(sorted(tellable, key=_urgency)),
        ended=tuple(ended),
        num_held_back=num_held_back,
    )
    going_on = [each for each in firing if each.subject in known]
    kept = {each.subject: each for each in (*going_on, *tellable)}
    return Planned(
        group=group,
        notice=notice,
        told=_told(tuple(kept.values()), now_unix_ns),
        begun=_begun(told, tellable),
    )


def _begun(told: Sequence[Alert], tellable: Sequence[Alert]) -> Told | None:
    """An attempt that nobody answered may have arrived: its end is told as well."""
    if {each.subject for each in tellable} <= {each.subject for each in told}:
        return None
    known = {each.subject: each for each in (*told, *tellable)}
    return Told(at_unix_ns=None, alerts=tuple(known.values()))


def _is_sure(before: Told | None) -> bool:
    """Whether it arrived."""
    return before is not None and before.at_unix_ns is not None


def _age_seconds(before: Told | None, now_unix_ns: int) -> float:
    """Since the last message. A clock that was set back since says as little of it as one that was
    set ahead: what is due does not wait until it has caught up."""
    if before is None or before.at_unix_ns is None:
        return float("inf")
    return abs(now_unix_ns - before.at_unix_ns) / _NS


def _seconds_over(ended: Sequence[Alert], now_unix_ns: int) -> float:
    """Since the last of them ended."""
    last = max((each.ended_at_unix_ns or now_unix_ns for each in ended), default=now_unix_ns)
    return (now_unix_ns - last) / _NS


def _told(alerts: tuple[Alert, ...], now_unix_ns: int) -> Told | None:
    return Told(at_unix_ns=now_unix_ns, alerts=alerts) if alerts else None


def _as_ended(alert: Alert, now_unix_ns: int) -> Alert:
    return replace(alert, ended_at_unix_ns=alert.ended_at_unix_ns or now_unix_ns)


def _kind(
    new: Sequence[Alert],
    ended: Sequence[Alert],
    tellable: Sequence[Alert],
    *,
    is_over: bool,
    age_seconds: float,
) -> NoticeKind | None:
    """None: nothing is due."""
    if _has_page(new):
        return NoticeKind.FIRING
    if age_seconds < GROUP_INTERVAL:
        return None
    if is_over:
        return NoticeKind.RESOLVED
    if new:
        return NoticeKind.FIRING
    if _has_page(ended):
        return NoticeKind.REPEAT if tellable else NoticeKind.RESOLVED
    return NoticeKind.REPEAT if tellable and age_seconds >= REPEATED_EVERY_SECONDS else None


def _tellable(
    firing: Sequence[Alert], is_silenced: Callable[[AlertSubject], bool]
) -> tuple[list[Alert], int]:
    """With the number of tickets that a page holds back. One that is silenced does so too: whoever
    silenced it knows of the trouble."""
    has_page = _has_page(firing)
    heard = [each for each in firing if not is_silenced(each.subject)]
    kept_back = [each for each in heard if has_page and each.subject.severity is Severity.TICKET]
    return [each for each in heard if each not in kept_back], len(kept_back)


def _has_page(alerts: Sequence[Alert]) -> bool:
    return any(each.subject.severity is Severity.PAGE for each in alerts)


def _urgency(alert: Alert) -> tuple[bool, int]:
    return alert.subject.severity is not Severity.PAGE, alert.started_at_unix_ns
