"""One evaluation of every promise, from the control plane's own counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from controlplane.operator.observed import ObservedState
from controlplane.slo.alert import Alert, AlertSubject
from controlplane.slo.alert_windows import MINUTE
from controlplane.slo.evaluation import AlertCourse, Evaluated, alerts_of, teams_of
from controlplane.slo.operator_alerts import crash_loop_alerts, stray_alerts
from controlplane.slo.prometheus.alerts_of_serving import CRASH_LOOP
from controlplane.slo.prometheus.links import Links
from controlplane.slo.promised_now import promises_now
from controlplane.slo.reading import SEEN_SECONDS, StandingReader, seen_deployments
from controlplane.slo.silences import Silence
from controlplane.slo.standing import Standing
from controlplane.slo.state import SLOState
from controlplane.store.database import Database
from controlplane.store.deployments import DesiredDeployment, list_readable_deployments
from controlplane.store.silences import list_in_force

_NS = 10**9
_GRACE_NS = (SEEN_SECONDS + MINUTE) * _NS
"""A control plane that has just started heard nothing while it was away, nor did one that was
stopped, or whose database was away, or whose clock was set: until it has listened for as long as
one must be silent to be unseen, nobody is."""
_AWAY_SECONDS = SEEN_SECONDS - MINUTE
"""Between two evaluations; half a minute more than usual where they are as far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What one found."""

    at_unix_ns: int
    num_promises: int
    alerts: Evaluated
    silences: tuple[Silence, ...]
    """Those in force."""


class Evaluator:
    """One thread uses it."""

    def __init__(
        self,
        config_db: Database,
        request_db: Database,
        observed: ObservedState,
        reader: StandingReader,
        links: Links,
        course: AlertCourse,
        started_at_unix_ns: int,
        every_seconds: float = 30.0,
    ) -> None:
        self._config_db = config_db
        self._request_db = request_db
        self._observed = observed
        self._reader = reader
        self._links = links
        self._course = course
        self._away_ns = round(max(_AWAY_SECONDS, every_seconds + MINUTE / 2) * _NS)
        self._heard_until_unix_ns = started_at_unix_ns
        self._listens_from_unix_ns = started_at_unix_ns + _GRACE_NS

    def evaluate(self, now_unix_ns: int) -> Evaluation:
        """Raises what the databases do."""
        with self._config_db.reading() as session:
            desired = list_readable_deployments(session)[0]
            silences = tuple(list_in_force(session, now_unix_ns))
        promises = list(promises_now(desired))
        with self._request_db.reading() as session:
            now_unix = now_unix_ns // _NS
            standings = self._reader.read(session, promises, now_unix)
            unseen = self._unseen(session, desired, standings, now_unix)
        has_listened = self._has_listened(now_unix_ns)
        firing = alerts_of(standings, unseen if has_listened else (), self._links, now_unix_ns)
        firing += self._of_operator(standings, now_unix_ns)
        no_data = {
            each.promise.deployment for each in standings if each.state is SLOState.NO_DATA
        } | set(unseen)
        return Evaluation(
            at_unix_ns=now_unix_ns,
            num_promises=len(promises),
            alerts=self._course.take(firing, _may_have_ended(no_data, has_listened), now_unix_ns),
            silences=silences,
        )

    def note_taken(self, evaluation: Evaluation) -> None:
        """Whoever keeps alerts took all of it."""
        self._course.note_taken(evaluation.alerts.ended)

    def _of_operator(self, standings: Sequence[Standing], now_unix_ns: int) -> list[Alert]:
        observed, links = self._observed, self._links
        failures, holds = observed.failures()
        return [
            *crash_loop_alerts(failures, holds, teams_of(standings), links, now_unix_ns),
            *stray_alerts(observed.strays(), links, now_unix_ns),
        ]

    def _has_listened(self, now_unix_ns: int) -> bool:
        away_ns = now_unix_ns - self._heard_until_unix_ns
        self._heard_until_unix_ns = now_unix_ns
        if not 0 <= away_ns <= self._away_ns:
            self._listens_from_unix_ns = now_unix_ns + _GRACE_NS
        return now_unix_ns >= self._listens_from_unix_ns

    def _unseen(
        self,
        session: Session,
        desired: Sequence[DesiredDeployment],
        standings: Sequence[Standing],
        now_unix: int,
    ) -> list[str]:
        """Deployments with ready replicas of which no gateway tells. One whose replicas are still
        being started is no part of what gateways see, and is another trouble."""
        served = {
            each.deployment
            for each in self._observed.replicas()
            if each.state == "ready" and not each.is_observed_only
        }
        names = {each.name for each in desired} & served
        seen = {each.promise.deployment for each in standings if each.state is not SLOState.NO_DATA}
        return sorted(names - seen - seen_deployments(session, names, now_unix))


def _may_have_ended(no_data: set[str], has_listened: bool) -> Callable[[AlertSubject], bool]:
    """What is not seen cannot have ended, as long as nobody has listened for long enough. Nor has
    a loop of failures: a new operator begins to count them."""
    return lambda subject: (
        has_listened or (subject.deployment not in no_data and subject.name != CRASH_LOOP)
    )
