"""How promises stand beside silences and maintenance: whom no alert tells, and what of the budget
was spent in planned maintenance. Nothing is taken out of what they stand at."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session
from starlette.datastructures import State

from controlplane.api.silence_views import (
    MaintenanceSpent,
    SilenceView,
    view_silence,
    view_silenced,
)
from controlplane.api.slo_views import FiringView, StandingView, view_standing
from controlplane.slo.alert import AlertSubject
from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.maintenance import Stretch, maintenance_of
from controlplane.slo.prometheus.burning import ALERT
from controlplane.slo.promised import Promise
from controlplane.slo.silences import Silence, find_silence
from controlplane.slo.standing import Standing
from controlplane.store.objective_counts import ObjectiveKey, read_objective_counts
from controlplane.store.silences import list_in_force, list_touching


def view_standings(
    state: State, standings: Sequence[Standing], now_unix_ns: int, deployment: str | None
) -> list[StandingView]:
    """In their order; `deployment` where all of them are of that one."""
    now_unix = now_unix_ns // 10**9
    longest = max((each.promise.period_seconds for each in standings), default=0)
    with state.config_db.reading() as session:
        silences = list_touching(session, now_unix_ns - int(longest * 10**9), now_unix_ns)
    views = [with_silences(view_standing(each), silences, now_unix_ns) for each in standings]
    with state.request_db.reading() as session:
        reader = MaintenanceReader(session, silences, now_unix, deployment)
        return [
            replace(view, maintenance=reader.spent(each.promise, each.budget.bad))
            for each, view in zip(standings, views, strict=True)
        ]


def view_in_force(
    state: State, standings: Sequence[StandingView], now_unix_ns: int
) -> list[SilenceView]:
    """Those that keep alerts of any of `standings` back, whether one fires or not: who looks at
    what is well must see that nobody would be told if it were not."""
    with state.config_db.reading() as session:
        in_force = list_in_force(session, now_unix_ns)
    return [
        view_silence(silence, now_unix_ns)
        for silence in in_force
        if any(
            silence.scope.is_about(each.deployment, each.request_class, each.objective)
            for each in standings
        )
    ]


def with_silences(
    view: StandingView, silences: Iterable[Silence], now_unix_ns: int
) -> StandingView:
    """The same, with what keeps each of its alerts back."""
    in_force = [each for each in silences if each.is_in_force(now_unix_ns)]
    if not view.firing or not in_force:
        return view
    firing = []
    for each in view.firing:
        found = find_silence(in_force, _subject(view, each), now_unix_ns)
        silenced = None if found is None else view_silenced(found)
        firing.append(replace(each, silenced=silenced))
    return replace(view, firing=firing)


def _subject(view: StandingView, firing: FiringView) -> AlertSubject:
    return AlertSubject(
        name=ALERT,
        severity=Severity(firing.severity),
        grade=firing.grade,
        deployment=view.deployment,
        request_class=view.request_class,
        objective=view.objective,
    )


class MaintenanceReader:
    """What was spent in maintenance, promise by promise; each stretch of time is read once."""

    def __init__(
        self, session: Session, windows: Sequence[Silence], now_unix: int, deployment: str | None
    ) -> None:
        self._session = session
        self._windows = windows
        self._end_unix = now_unix - now_unix % MINUTE + MINUTE
        self._deployment = deployment
        self._read: dict[Stretch, dict[ObjectiveKey, EventCounts]] = {}

    def spent(self, promise: Promise, num_bad: int) -> MaintenanceSpent | None:
        """`num_bad`: of the whole period. None: none of it was maintenance."""
        start = self._end_unix - round(promise.period_seconds) // MINUTE * MINUTE
        stretches = maintenance_of(promise, self._windows, start, self._end_unix)
        if not stretches:
            return None
        key = ObjectiveKey(promise.deployment, promise.request_class, promise.objective)
        spent = sum(self._counts(each).get(key, NO_EVENTS).bad for each in stretches)
        return MaintenanceSpent(
            seconds=sum(each.end_unix - each.start_unix for each in stretches),
            num_bad=spent,
            share_of_spent=spent / num_bad if num_bad else None,
        )

    def _counts(self, stretch: Stretch) -> dict[ObjectiveKey, EventCounts]:
        if stretch not in self._read:
            self._read[stretch] = read_objective_counts(
                self._session, stretch.start_unix, stretch.end_unix, self._deployment
            )
        return self._read[stretch]
