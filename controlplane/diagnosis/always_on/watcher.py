"""One pass of the always-on diagnosis: scrape, remember, judge, keep incidents.

Decisions are elsewhere (`turns`, the rules, `incidents`); here they are put in order. One thread
uses it; `worker` runs it.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import structlog

from controlplane.api.changes import STALE_SECONDS
from controlplane.diagnosis.always_on.clipping import newest_part
from controlplane.diagnosis.always_on.diagnoses import Diagnoses, LastDiagnosis
from controlplane.diagnosis.always_on.gateway_history import FindKey, gateway_targets
from controlplane.diagnosis.always_on.outages import Outages
from controlplane.diagnosis.always_on.pace import Pace
from controlplane.diagnosis.always_on.rota import Rota
from controlplane.diagnosis.always_on.rule_guard import RuleGuard
from controlplane.diagnosis.always_on.scraper import ScrapedPage, Scraper
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.sight import Seen, Sight, targets_of
from controlplane.diagnosis.always_on.turns import Target, order_deployments
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.incidents import NO_TROUBLE, IncidentKeeper, IncidentSettings
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.window import Window
from controlplane.operator.observed import ObservedState
from controlplane.store.database import Database
from controlplane.store.incident_lists import count_open, list_incidents
from controlplane.store.incidents import IncidentState, resolve_incident
from dataplane.clock import WallClock

_MAX_GATEWAYS = 64
_STOP_SECONDS = 0.2
"""So often scrapes under way are asked whether they are still wanted."""
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
        self.num_scrapes = 0
        self.num_failed_scrapes = 0
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
        self._keeper = IncidentKeeper(
            config_db, IncidentSettings(resolves_after_seconds=settings.calm_seconds)
        )
        self._scraper = Scraper(settings)
        self._runner = asyncio.Runner()
        self._rota = Rota()
        self._pace = Pace(settings)
        self._last_asked: dict[str, float] = {}
        self._last_looked: dict[str, float] = {}
        self._troubled: set[str] | None = None
        """Deployments with incidents that are open; None: not read yet."""
        self._there_at: dict[str, float] = {}
        """When something of a deployment last ran, or failed."""
        self._records_at = 0.0

    def close(self) -> None:
        """End its connections."""
        self._runner.run(self._scraper.close())
        self._runner.close()

    def do_pass(self) -> None:
        """Scrape those whose turn it is, and judge what is due. Raises DatabaseLostError, at its
        end: what can be seen without a database was looked at all the same."""
        began_cpu = time.thread_time()
        now = self._now()
        self._outages.begin_pass()
        self._outages.ask(self._config_db, lambda: self._read_troubled(now))
        troubled = self._troubled or set()
        replicas = self._observed.replicas()
        self._sight.take_fleet(replicas, now)
        targets = targets_of(replicas)
        self._scraper.forget_others(
            {each.address for each in targets}
            | {report.address for report, _ in self._observed.gateways()}
        )
        suspects = self._sight.suspects() | troubled
        chosen = self._choose(targets, suspects, now)
        known = {each.replica_id for each in targets}
        self._last_asked = {key: at for key, at in self._last_asked.items() if key in known}
        self._last_asked |= {each.replica_id: now for each in chosen}
        pages = self._runner.run(self._fetch(chosen))
        if self._stopping.is_set():
            return
        asked = [page for page in pages if not page.is_resting]
        self.num_scrapes += len(asked)
        self.num_failed_scrapes += sum(page.text is None for page in asked)
        self._sight.take_pages(pages, now)
        self._look_around(suspects)
        self._pace.take(time.thread_time() - began_cpu)
        self._outages.end_pass()

    def _choose(
        self, targets: Sequence[Target], suspects: frozenset[str], now: float
    ) -> list[Target]:
        if len(targets) <= self._settings.max_scrapes:
            self._rota.ask_all()
            return list(targets)
        most = self._pace.num_scrapes
        return self._rota.choose(targets, suspects, self._last_asked, now, most)

    async def _fetch(self, targets: Sequence[Target]) -> list[ScrapedPage]:
        """None of them where it is to stop before all have answered."""
        scraping = asyncio.ensure_future(self._scraper.scrape(targets))
        while not scraping.done():
            await asyncio.wait({scraping}, timeout=_STOP_SECONDS)
            if self._stopping.is_set() and not scraping.done():
                scraping.cancel()
                await asyncio.wait({scraping})
                return []
        return scraping.result()

    def _look_around(self, suspects: frozenset[str]) -> None:
        now = self._now()
        self._read_records(now)
        names = self._sight.names()
        self._forget_others(frozenset(names), now)
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
        if not self._rota.may_be_looked_at(name, -1.0 if last is None else last):
            return False
        if last is None:
            return True
        half_a_pass = self._settings.pass_seconds / 2
        is_time = now - last >= self._settings.look_seconds - half_a_pass
        return is_time and (is_suspect or self._sight.asked_at(name) > last)

    def _ask_gateways(self, now: float) -> None:
        """A key that cannot be had costs what gateways export, and nothing else."""
        reports = [report for report, age in self._observed.gateways() if age < STALE_SECONDS]
        try:
            targets = gateway_targets(reports[:_MAX_GATEWAYS], self._find_key)
        except OSError as error:
            _log.warning("gateways cannot be asked", error=str(error))
            targets = []
        self._sight.take_gateways(self._runner.run(self._fetch(targets)), now)

    def _read_records(self, now: float) -> None:
        """What our databases say, at most once for each time that all are looked at."""
        if now - self._records_at < self._settings.look_seconds - self._settings.pass_seconds / 2:
            return
        self._records_at = now
        self._ask_gateways(now)
        ask = self._outages.ask
        ask(self._request_db, lambda: self._sight.take_counts(now))
        troubled = self._troubled or set()
        ask(self._request_db, lambda: self._sight.take_requests(troubled, now))
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
        self._outages.ask(
            self._config_db,
            lambda: self._keep_incidents(name, seen, diagnosis, now_unix_ns),
            is_writing=True,
        )

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

    def _keep_incidents(
        self, name: str, seen: Seen, diagnosis: Diagnosis, now_unix_ns: int
    ) -> bool:
        """Where nothing is wrong and nothing was, the database is left in peace. Where no replica
        tells anything and the rules cannot say, nothing is known of an end either. Whether anything
        was written."""
        if seen.num_telling == 0 and diagnosis.mechanism is Mechanism.CANNOT_TELL:
            self._keeper.forget(name)
            return False
        is_well = all(each.mechanism in NO_TROUBLE for each in diagnosis.findings)
        troubled = self._read_troubled(self._now())
        if is_well and name not in troubled:
            self._keeper.forget(name)
            return False
        was_written = self._keeper.take(name, diagnosis, now_unix_ns)
        if is_well and not self._has_open(name):
            troubled.discard(name)
        else:
            troubled.add(name)
        return was_written

    def _read_troubled(self, now: float) -> set[str]:
        """Incidents of an earlier control plane go on: they end as those that it opens itself."""
        if self._troubled is None:
            with self._config_db.reading() as session:
                self._troubled = {deployment for deployment, _ in count_open(session)}
            self._there_at = dict.fromkeys(self._troubled, now)
        return self._troubled

    def _has_open(self, name: str) -> bool:
        with self._config_db.reading() as session:
            return bool(list_incidents(session, deployment=name, state=IncidentState.OPEN, limit=1))

    def _forget_others(self, names: frozenset[str], now: float) -> None:
        """Of deployments of which nothing runs any more; their incidents are over."""
        self._diagnoses.keep_only(names)
        self._there_at |= dict.fromkeys(names, now)
        for name, at in list(self._there_at.items()):
            if now - at < self._settings.calm_seconds:
                continue
            if not self._outages.ask(
                self._config_db, partial(self._resolve_all, name), is_writing=True
            ):
                return  # in a later pass
            del self._there_at[name]
            self._last_looked.pop(name, None)
            self._keeper.forget(name)

    def _resolve_all(self, name: str) -> None:
        now_unix_ns = self._clock()
        with self._config_db.session() as session:
            for incident in list_incidents(
                session, deployment=name, state=IncidentState.OPEN, limit=None
            ):
                what = "nothing of the deployment runs any more"
                resolve_incident(session, incident.incident_id, what, now_unix_ns)
        self._read_troubled(self._now()).discard(name)


def _replicas_of(window: Window) -> frozenset[str]:
    """Whose pages are in it: of a large fleet not all are asked in one turn."""
    return frozenset(
        series.labels["replica"]
        for series in window.series
        if series.origin.kind is SourceKind.METRICS and "replica" in series.labels
    )
