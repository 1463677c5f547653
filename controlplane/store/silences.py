"""Silences and maintenance windows in the database: planning one, ending one, and what there is.

None is ever changed but for an early end: to make one longer, another is made. Each beginning and
each early end is audited in the same transaction. One that nobody ends is over at its time by
itself, which needs no write: whoever asks compares the time.
"""

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from controlplane.slo.alert_windows import Severity
from controlplane.slo.promised_now import promises_now
from controlplane.slo.silences import Silence, SilenceKind, SilenceScope
from controlplane.store.audit import record_change
from controlplane.store.bounded_time import find_time_fault
from controlplane.store.deployments import list_readable_deployments
from controlplane.store.silence_tables import SilenceRow
from dataplane.clock import WallClock, wall_clock

MAX_AHEAD_SECONDS = 90 * 24 * 3600
"""How far ahead maintenance is planned."""
_NS = 10**9


class SilenceError(ValueError):
    """One that cannot be made or ended; the message says why and what to do."""


class UnknownSilenceError(SilenceError):
    """None has that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSilence:
    """What somebody asks for."""

    kind: SilenceKind
    scope: SilenceScope
    reason: str
    seconds: float
    from_unix_ns: int | None = None
    """Of maintenance; None: at once."""
    may_be_longer: bool = False
    """It may last for more than a day."""
    is_of_everything: bool = False
    """Said by who names no deployment, so that a forgotten one is no silence of everything."""


def plan_silence(
    session: Session, wanted: NewSilence, *, actor: str, clock: WallClock = wall_clock
) -> Silence:
    """What `add_silence` would make; nothing is written. Raises SilenceError as that does."""
    now = clock()
    _check_words(wanted)
    _check_time(wanted, now)
    _check_scope(session, wanted)
    begins = now if wanted.from_unix_ns is None else wanted.from_unix_ns
    return Silence(
        silence_id=secrets.token_hex(4),
        kind=wanted.kind,
        scope=wanted.scope,
        reason=wanted.reason.strip(),
        created_by=actor,
        created_at_unix_ns=now,
        from_unix_ns=begins,
        until_unix_ns=begins + int(wanted.seconds * _NS),
    )


def add_silence(
    session: Session, wanted: NewSilence, *, actor: str, clock: WallClock = wall_clock
) -> Silence:
    """Make one. Raises SilenceError for what would silence nothing, or for no bounded time."""
    made = plan_silence(session, wanted, actor=actor, clock=clock)
    session.add(_row(made))
    session.flush()
    record_change(
        session, actor=actor, action="silence.create", subject=_subject(made.silence_id),
        reason=made.reason, before=None, after=_facts(made), clock=clock,
    )  # fmt: skip
    return made


def end_silence(
    session: Session, silence_id: str, *, actor: str, reason: str, clock: WallClock = wall_clock
) -> Silence:
    """End one before its time, or call it off before it began. Raises UnknownSilenceError, and
    SilenceError for one that is over."""
    row = session.get(SilenceRow, silence_id)
    if row is None:
        raise UnknownSilenceError(f"there is no silence {silence_id!r}; see the list of them")
    now, before = clock(), _read(row)
    if before.is_over(now):
        raise SilenceError(f"silence {silence_id} is over already; nothing was changed")
    if not reason.strip():
        raise SilenceError("reason: say why it ends early, for who asks later")
    row.ended_at_unix_ns, row.ended_by, row.end_reason = now, actor, reason.strip()
    session.flush()
    record_change(
        session, actor=actor, action="silence.end", subject=_subject(silence_id),
        reason=reason, before=_facts(before), after=None, clock=clock,
    )  # fmt: skip
    return _read(row)


def list_in_force(session: Session, now_unix_ns: int) -> list[Silence]:
    """Those that keep alerts back at that instant, the newest first."""
    return [each for each in list_not_over(session, now_unix_ns) if each.is_in_force(now_unix_ns)]


def list_not_over(session: Session, now_unix_ns: int) -> list[Silence]:
    """Those in force and those that are planned, the newest first."""
    query = select(SilenceRow).where(
        SilenceRow.ended_at_unix_ns.is_(None), SilenceRow.until_unix_ns > now_unix_ns
    )
    return [_read(row) for row in session.scalars(_newest_first(query))]


def list_silences(session: Session, limit: int) -> list[Silence]:
    """All that ever were, the newest first."""
    return [_read(row) for row in session.scalars(_newest_first(select(SilenceRow)).limit(limit))]


def list_touching(
    session: Session, start_unix_ns: int, end_unix_ns: int, kind: SilenceKind | None = None
) -> list[Silence]:
    """Those whose time reaches into the one between, over or not; the newest first."""
    over_at = func.coalesce(SilenceRow.ended_at_unix_ns, SilenceRow.until_unix_ns)
    query = select(SilenceRow).where(
        SilenceRow.from_unix_ns < end_unix_ns,
        over_at >= start_unix_ns,
        or_(SilenceRow.ended_at_unix_ns.is_(None), over_at > SilenceRow.from_unix_ns),
    )
    if kind is not None:
        query = query.where(SilenceRow.kind == kind.value)
    return [_read(row) for row in session.scalars(_newest_first(query))]


def _newest_first(query: Select[SilenceRow]) -> Select[SilenceRow]:
    return query.order_by(SilenceRow.created_at_unix_ns.desc(), SilenceRow.silence_id)


def _check_words(wanted: NewSilence) -> None:
    if not wanted.reason.strip():
        raise SilenceError("reason: say why, for everybody who sees it until it ends")
    names_none = wanted.scope.deployment is None
    if names_none and not wanted.is_of_everything:
        raise SilenceError(
            "deployment: name one, or say that it is of every deployment and of the installation "
            "itself"
        )
    if wanted.is_of_everything and not names_none:
        raise SilenceError("deployment: either one, or every one, and not both")


def _check_time(wanted: NewSilence, now_unix_ns: int) -> None:
    fault = find_time_fault(f"a {wanted.kind}", wanted.seconds, may_be_longer=wanted.may_be_longer)
    if fault is not None:
        raise SilenceError(fault)
    begins = wanted.from_unix_ns
    if begins is None:
        return
    if wanted.kind is SilenceKind.SILENCE:
        raise SilenceError("from: a silence begins at once; plan ahead with a maintenance window")
    if begins < now_unix_ns:
        raise SilenceError("from: this is past; leave it away to begin at once")
    if begins > now_unix_ns + MAX_AHEAD_SECONDS * _NS:
        raise SilenceError("from: maintenance is planned for at most 90d ahead")


def _check_scope(session: Session, wanted: NewSilence) -> None:
    """A misspelt name would silence nothing, and nobody would know."""
    scope = wanted.scope
    deployments = list_readable_deployments(session)[0]
    names = sorted(each.name for each in deployments)
    if scope.deployment is not None and scope.deployment not in names:
        raise SilenceError(
            f"there is no deployment {scope.deployment!r}; there are {', '.join(names) or 'none'}"
        )
    promises = list(
        promises_now(each for each in deployments if scope.deployment in (None, each.name))
    )
    _check_named("request_class", scope.request_class, {each.request_class for each in promises})
    of_class = [each for each in promises if scope.request_class in (None, each.request_class)]
    _check_named("objective", scope.objective, {each.objective for each in of_class})


def _check_named(place: str, name: str | None, known: set[str]) -> None:
    if name is not None and name not in known:
        has = f"has {', '.join(sorted(known))}" if known else "promises nothing"
        raise SilenceError(f"{place}: there is no {name!r}; the contract {has}")


def _subject(silence_id: str) -> str:
    return f"silence/{silence_id}"


def _facts(silence: Silence) -> dict[str, Any]:
    """For the audit."""
    scope = silence.scope
    facts = {
        "kind": silence.kind.value,
        "deployment": scope.deployment,
        "request_class": scope.request_class,
        "objective": scope.objective,
        "severity": None if scope.severity is None else scope.severity.value,
        "from_unix_ns": silence.from_unix_ns,
        "until_unix_ns": silence.until_unix_ns,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _row(silence: Silence) -> SilenceRow:
    scope = silence.scope
    return SilenceRow(
        silence_id=silence.silence_id,
        kind=silence.kind.value,
        deployment=scope.deployment,
        request_class=scope.request_class,
        objective=scope.objective,
        severity=None if scope.severity is None else scope.severity.value,
        reason=silence.reason,
        created_by=silence.created_by,
        created_at_unix_ns=silence.created_at_unix_ns,
        from_unix_ns=silence.from_unix_ns,
        until_unix_ns=silence.until_unix_ns,
    )


def _read(row: SilenceRow) -> Silence:
    return Silence(
        silence_id=row.silence_id,
        kind=SilenceKind(row.kind),
        scope=SilenceScope(
            deployment=row.deployment,
            request_class=row.request_class,
            objective=row.objective,
            severity=None if row.severity is None else Severity(row.severity),
        ),
        reason=row.reason,
        created_by=row.created_by,
        created_at_unix_ns=row.created_at_unix_ns,
        from_unix_ns=row.from_unix_ns,
        until_unix_ns=row.until_unix_ns,
        ended_at_unix_ns=row.ended_at_unix_ns,
        ended_by=row.ended_by,
        end_reason=row.end_reason,
    )
