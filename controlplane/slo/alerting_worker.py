"""The thread that evaluates every promise while the control plane runs, and has people told.

Imports little, as the diagnosis does: what it works with is imported when it starts. Of several
control planes over one database one runs at a time (see `controlplane.store.database_lock`), and
the one that follows goes on with what fired before.
"""

import threading
import time
from typing import TYPE_CHECKING

import structlog

from controlplane.operator.observed import ObservedState
from controlplane.slo.alerting_settings import AlertingSettings
from controlplane.store.database import Database
from dataplane.clock import WallClock, wall_clock

if TYPE_CHECKING:
    from controlplane.slo.alert_book import AlertBook
    from controlplane.slo.evaluator import Evaluation, Evaluator
    from controlplane.slo.notices.teller import Teller
    from controlplane.slo.reading import StandingReader

_log = structlog.get_logger(__name__)


class AlertingWorker:
    """Evaluates until it is stopped; an error ends a pass, never it, and is shown."""

    def __init__(
        self,
        config_db: Database,
        request_db: Database,
        observed: ObservedState,
        settings: AlertingSettings,
        clock: WallClock = wall_clock,
    ) -> None:
        self.settings = settings
        self.tellers: tuple[Teller, ...] = ()
        """In the order of the settings; none before the start."""
        self.num_passes = 0
        self.num_failed_passes = 0
        self.error: str | None = None
        """Why the last pass failed; None when it did not."""
        self.pass_seconds: float | None = None
        """How long the last pass took; None: there was none yet."""
        self.last: Evaluation | None = None
        self._config_db = config_db
        self._request_db = request_db
        self._observed = observed
        self._clock = clock
        self._reader: StandingReader | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerting", daemon=True)

    def _create_tellers(self) -> None:
        if not self.settings.notifiers:
            return
        from controlplane.slo.notices.configured import create_notifiers
        from controlplane.slo.notices.teller import Teller

        made = create_notifiers(self.settings.notifiers)
        self.tellers = tuple(
            Teller(plan, made[plan.name], self._config_db, self.settings.console_url, self._clock)
            for plan in self.settings.notifiers
        )

    def start(self, reader: "StandingReader") -> None:
        """Begin the first pass; where it is switched off, only notifiers can be tested. Raises
        PluginError, and ValueError for a notifier that cannot be used."""
        self._create_tellers()
        if not self.settings.is_on:
            return
        self._reader = reader
        for teller in self.tellers:
            teller.start()
        self._thread.start()

    def stop(self) -> None:
        """End after the pass under way."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        for teller in self.tellers:
            teller.stop()

    def _run(self) -> None:
        from controlplane.slo.alert_book import AlertBook

        book, evaluator = AlertBook(self._config_db), None
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                if evaluator is None:
                    evaluator = self._create_evaluator(book)
                self._pass(evaluator, book)
            # A database that is away, or whatever else: the next pass tries again, and until then
            # the error is counted and shown.
            except Exception as error:  # noqa: BLE001
                self._note_failure(error)
            else:
                self.error = None
            self.num_passes += 1
            self.pass_seconds = time.monotonic() - started
            self._stopping.wait(max(0.05, self.settings.evaluate_seconds - self.pass_seconds))

    def _create_evaluator(self, book: "AlertBook") -> "Evaluator":
        from controlplane.slo.alert import AlertSource
        from controlplane.slo.evaluation import AlertCourse
        from controlplane.slo.evaluator import Evaluator
        from controlplane.slo.fired_before import fired_before
        from controlplane.slo.prometheus.links import Links

        if self._reader is None:
            raise AssertionError("the worker was not started")
        return Evaluator(
            self._config_db,
            self._request_db,
            self._observed,
            self._reader,
            Links(console_url=self.settings.console_url),
            AlertCourse(fired_before(book.firing(AlertSource.CONTROL_PLANE))),
            self._clock(),
            self.settings.evaluate_seconds,
        )

    def _pass(self, evaluator: "Evaluator", book: "AlertBook") -> None:
        from controlplane.slo.notices.teller import Situation
        from controlplane.slo.silences import is_silenced

        found = evaluator.evaluate(self._clock())
        for teller in self.tellers:  # before the book: who is to be woken waits for no database
            teller.put(
                Situation(
                    firing=found.alerts.firing,
                    is_silenced=lambda subject: is_silenced(
                        found.silences, subject, found.at_unix_ns
                    ),
                )
            )
        book.take((*found.alerts.firing, *found.alerts.ended), found.at_unix_ns)
        evaluator.note_taken(found)
        self.last = found

    def _note_failure(self, error: Exception) -> None:
        self.num_failed_passes += 1
        said = f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"
        if said != self.error:
            _log.error("an evaluation of objectives failed", error=said, exc_info=True)
        self.error = said
