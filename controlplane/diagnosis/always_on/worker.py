"""The thread that diagnoses every deployment while the control plane runs.

Imports little: what it works with (rules, numpy, an HTTP client) is imported when it starts, after
the operator's first pass.
"""

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from controlplane.diagnosis.always_on.diagnoses import Diagnoses
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.operator.observed import ObservedState
from controlplane.process_history import ProcessHistory
from controlplane.store.database import Database
from dataplane.clock import WallClock, wall_clock

if TYPE_CHECKING:
    from controlplane.diagnosis.always_on.gateway_history import FindKey
    from controlplane.diagnosis.always_on.rule_guard import RuleGuard
    from controlplane.diagnosis.always_on.watcher import Watcher

_log = structlog.get_logger(__name__)


class DiagnosisWorker:
    """Passes over all deployments until it is stopped; an error ends a pass, and what ends more
    than that is shown."""

    def __init__(
        self,
        config_db: Database,
        request_db: Database,
        observed: ObservedState,
        processes: ProcessHistory,
        logs_dir: Path,
        settings: AlwaysOnSettings,
        clock: WallClock = wall_clock,
    ) -> None:
        self.settings = settings
        self.diagnoses = Diagnoses()
        self.num_passes = 0
        self.num_failed_passes = 0
        self.error: str | None = None
        """Why the last pass failed; None when it did not."""
        self.pass_seconds: float | None = None
        """How long the last pass took; None: there was none yet."""
        self.guard: RuleGuard | None = None
        """None: it is off, or has not begun."""
        self.watcher: Watcher | None = None
        self._config_db = config_db
        self._request_db = request_db
        self._observed = observed
        self._processes = processes
        self._logs_dir = logs_dir
        self._clock = clock
        self._find_key: FindKey | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="diagnosis", daemon=True)

    @property
    def num_failed_looks(self) -> int:
        """At one deployment, whose telemetry broke them."""
        return 0 if self.watcher is None else self.watcher.num_failed_looks

    @property
    def is_alive(self) -> bool:
        """Its thread runs."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Until it has ended, and no longer than that."""
        self._thread.join(seconds)

    def start(self, find_key: "FindKey | None" = None) -> None:
        """Begin the first pass; nothing, where it is switched off. `find_key`: of gateways that
        ask for one.

        Raises PluginError for a plugin of rules that cannot be used.
        """
        if not self.settings.is_on:
            return
        if self.settings.rule_plugins:
            self._load_rules()
        self._find_key = find_key
        self._thread.start()

    def stop(self) -> None:
        """End with the scrapes under way given up, and the look under way finished."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _load_rules(self) -> "RuleGuard":
        from controlplane.diagnosis.always_on.rule_guard import RuleGuard
        from controlplane.diagnosis.rule_book import load_rules

        self.guard = RuleGuard(load_rules(self.settings.rule_plugins))
        return self.guard

    def _run(self) -> None:
        try:
            self._run_passes()
        # Whatever ends the thread, nobody looks any more: that is to be seen.
        except BaseException as error:  # noqa: BLE001
            self.num_failed_passes += 1
            self.error = f"it ended, until the control plane restarts: {_said(error)}"
            _log.critical("the diagnosis ended", error=self.error, exc_info=True)

    def _run_passes(self) -> None:
        from controlplane.diagnosis.always_on.sight import Sight
        from controlplane.diagnosis.always_on.watcher import Watcher

        guard = self.guard or self._load_rules()
        sight = Sight(
            self._observed,
            self._config_db,
            self._request_db,
            self._processes,
            self._logs_dir,
            self.settings.keep_seconds,
        )
        watcher = self.watcher = Watcher(
            self._config_db,
            self._observed,
            sight,
            guard,
            self.diagnoses,
            self.settings,
            self._clock,
            self._find_key,
            self._stopping,
        )
        try:
            while not self._stopping.is_set():
                self._pass(watcher)
        finally:
            watcher.close()

    def _pass(self, watcher: "Watcher") -> None:
        started = time.monotonic()
        try:
            watcher.do_pass()
        # It reads what others' servers answer, and must outlive whatever that may be: the next
        # pass tries again, and until then the error is counted and shown.
        except Exception as error:  # noqa: BLE001
            self.num_failed_passes += 1
            said = _said(error)
            if said != self.error:
                _log.error("a pass of the diagnosis failed", error=said, exc_info=True)
            self.error = said
        else:
            self.error = None
        self.num_passes += 1
        self.pass_seconds = time.monotonic() - started
        self._stopping.wait(max(0.5, self.settings.pass_seconds - self.pass_seconds))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"
