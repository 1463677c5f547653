"""One pass of the always-on diagnosis: scrape, remember, judge, keep incidents.

Decisions are elsewhere (`turns`, the rules, `incidents`), and so are the acts (`scrape_rounds`,
`sight`, `troubled`); here they are put in order. One thread uses it; `worker` runs it.
"""

import threading
import time
from dataclasses import replace

import structlog

from controlplane.diagnosis.always_on.clipping import newest_part
from controlplane.diagnosis.always_on.diagnoses import Diagnoses, LastDiagnosis
from controlplane.diagnosis.always_on.gateway_history import FindKey
from controlplane.diagnosis.always_on.outages import Outages
from controlplane.diagnosis.always_on.rule_guard import RuleGuard
from controlplane.diagnosis.always_on.scrape_rounds import ScrapeRounds
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.sight import Seen, Sight, targets_of
from controlplane.diagnosis.always_on.troubled import Troubled
from controlplane.diagnosis.always_on.turns import order_deployments
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.window import Window
from controlplane.operator.observed import ObservedState
from controlplane.store.database import Database
from dataplane.clock import WallClock

_log = structlog.get_logger(__name__)


class Watcher:
    """Looks at every deployment, again and again."""

    def __init__(
        self,
        config_db: Database,
        observed: ObservedState,
        sight: Sight,
        guard: RuleGuard,
        diagnoses: Diagnoses,
        settings: AlwaysOnSettings,
        clock: WallClock,
        find_key: FindKey | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        """`find_key`: of gateways that ask for one. `stopping`: once it is set a pass ends soon."""
        self.num_looks = 0
        self.num_failed_looks = 0
        self.failed_looks: dict[str, str] = {}
        """Why the last look at a deployment failed, by its name."""
        self._config_db = config_db
        self._request_db = sight.request_db
        self._outages = Outages()
        self._observed = observed
        self._sight = sight
        self._guard = guard
        self._diagnoses = diagnoses
        self._settings = settings
        self._clock = clock
        self._find_key = find_key
        self._stopping = stopping or threading.Event()
        self._rounds = ScrapeRounds(settings, self._stopping)
        self._troubled = Troubled(config_db, self._outages, settings.calm_seconds, clock)
        self._last_looked: dict[str, float] = {}
        self._records_at = 0.0

    @property
    def num_scrapes(self) -> int:
        """Pages that were asked for."""
        return self._rounds.num_scrapes

    @property
    def num_failed_scrapes(self) -> int:
        """Of them, those that did not come."""
        return self._rounds.num_failed_scrapes

    def close(self) -> None:
        """End its connections."""
        self._rounds.close()

    def do_pass(self) -> None:
        """Scrape those whose turn it is, and judge what is due. Raises DatabaseLostError, at its
        end: what can be seen without a database was looked at all the same."""
        began_cpu = time.thread_time()
        now = self._now()
        self._outages.begin_pass()
        self._troubled.read(now)
        replicas = self._observed.replicas()
        self._sight.take_fleet(replicas, now)
        targets = targets_of(replicas)
        self._rounds.forget_others(targets, self._observed.gateways())
        suspects = self._sight.suspects() | self._troubled.names
        pages = self._rounds.ask_replicas(targets, suspects, now)
        if self._stopping.is_set():
            return
        self._sight.take_pages(pages, now)
        self._observed.set_looks(self._sight.looks())
        self._observed.set_restarts(self._sight.restarts())
        self._look_around(suspects)
        self._rounds.note_cost(time.thread_time() - began_cpu)
        self._outages.end_pass()

    def _look_around(self, suspects: frozenset[str]) -> None:
        now = self._now()
        self._read_records(now)
        names = self._sight.names()
        self._diagnoses.keep_only(frozenset(names))
        for name in self._troubled.resolve_gone(frozenset(names), now):
            self._last_looked.pop(name, None)
        due = [name for name in names if self._is_due(name, name in suspects, now)]
        if not due:
            return
        began = time.monotonic()
        for name in order_deployments(due, suspects, self._last_looked):
            self._try_to_look(name)
            is_long = time.monotonic() - began > self._settings.max_look_seconds
            if is_long or self._stopping.is_set():
                return

    def _now(self) -> float:
        """Unix seconds, as exact as findings tell them."""
        return round(self._clock() / 1e9, 1)

    def _is_due(self, name: str, is_suspect: bool, now: float) -> bool:
        """Of one that looks well, only where something was seen since the last look."""
        last = self._last_looked.get(name)
        if not self._rounds.may_be_looked_at(name, -1.0 if last is None else last):
            return False
        if last is None:
            return True
        half_a_pass = self._settings.pass_seconds / 2
        is_time = now - last >= self._settings.look_seconds - half_a_pass
        return is_time and (is_suspect or self._sight.asked_at(name) > last)

    def _read_records(self, now: float) -> None:
        """What our databases say, at most once for each time that all are looked at."""
        if now - self._records_at < self._settings.look_seconds - self._settings.pass_seconds / 2:
            return
        self._records_at = now
        self._sight.take_gateways(
            self._rounds.ask_gateways(self._observed.gateways(), self._find_key), now
        )
        ask = self._outages.ask
        ask(self._request_db, lambda: self._sight.take_counts(now))
        ask(self._request_db, lambda: self._sight.take_requests(self._troubled.names, now))
        ask(self._config_db, lambda: self._sight.take_changes(now))
        ask(self._config_db, lambda: self._sight.take_failures(now))

    def _try_to_look(self, name: str) -> None:
        """What one deployment's telemetry breaks, it breaks for itself alone."""
        try:
            self._look(name)
        except Exception as error:  # noqa: BLE001
            self.num_failed_looks += 1
            said = f"{type(error).__name__}: {error}"
            if self.failed_looks.get(name) != said:
                _log.error("a look failed", deployment=name, error=said, exc_info=True)
            self.failed_looks = {**self.failed_looks, name: said}
        else:
            if name in self.failed_looks:
                self.failed_looks = {k: v for k, v in self.failed_looks.items() if k != name}

    def _look(self, name: str) -> None:
        now_unix_ns = self._clock()
        now = self._last_looked[name] = self._now()
        seen = self._sight.seen(name, now)
        if not seen.window.series and not seen.silent and not seen.has_failed:
            return  # nothing was ever asked: there is nothing to say yet
        self._guard.begin()
        judged = newest_part(seen.window, self._settings.judged_seconds)
        # Since when is looked up in all that is kept.
        diagnosis = replace(diagnose(judged, self._guard.rules), window=seen.window)
        self.num_looks += 1
        self._diagnoses.put(self._answer(name, seen, judged, diagnosis, now_unix_ns))
        self._troubled.take(name, diagnosis, now_unix_ns, is_telling=seen.num_telling > 0)

    def _answer(
        self, name: str, seen: Seen, judged: Window, diagnosis: Diagnosis, now_unix_ns: int
    ) -> LastDiagnosis:
        return LastDiagnosis(
            deployment=name,
            at_unix_ns=now_unix_ns,
            mechanism=diagnosis.mechanism.value,
            confidence=diagnosis.confidence.word if diagnosis.confidence else None,
            diagnosis=diagnosis_as_json(diagnosis),
            num_replicas=seen.num_replicas,
            num_telling=min(seen.num_telling, len(_replicas_of(judged))),
            silent=seen.silent,
            failed_rules=tuple(self._guard.failed_now),
        )


def _replicas_of(window: Window) -> frozenset[str]:
    """Whose pages are in it: of a large fleet not all are asked in one turn."""
    return frozenset(
        series.labels["replica"]
        for series in window.series
        if series.origin.kind is SourceKind.METRICS and "replica" in series.labels
    )
