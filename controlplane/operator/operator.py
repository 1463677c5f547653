"""The operator's thread: one pass after the other, until it is told to stop."""

import threading

import structlog

from controlplane.operator.calls import Calls
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.probes import Probes
from controlplane.operator.reconcile import Reconciler
from controlplane.operator.settings import OperatorSettings
from controlplane.store.database import Database
from dataplane.clock import monotonic_clock

_CALM_SECONDS = 0.5
_BUSY_SECONDS = 0.1
"""While a replica starts or drains: what it says is in a file, and files do not call."""

_log = structlog.get_logger(__name__)


class Operator:
    """Reconciles in a thread of its own. Stopping it leaves every replica as it is."""

    def __init__(
        self,
        database: Database,
        plugins: InstalledPlugins,
        observed: ObservedState,
        feed: SnapshotFeed,
        settings: OperatorSettings | None = None,
    ) -> None:
        self._wake = threading.Event()
        self._is_stopping = False
        self._has_passed = threading.Event()
        self._probes = Probes(on_done=self._wake.set)
        self._calls = Calls(monotonic_clock, on_done=self._wake.set)
        self._reconciler = Reconciler(
            database, plugins, observed, feed, self._probes, self._calls, settings
        )
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)
        self.num_passes = 0
        self.num_failed_passes = 0
        self.error: str | None = None
        """Why the last pass failed; None when it did not."""

    @property
    def holds(self) -> dict[str, str]:
        """Deployments that lack replicas and get none now, with the reason."""
        return self._reconciler.holds

    @property
    def failures(self) -> dict[str, int]:
        """How many replicas of a deployment failed in a row; those with none are left out."""
        return self._reconciler.failures

    @property
    def retries(self) -> dict[str, int]:
        """When what held a deployment is tried again, in Unix nanoseconds, where that is known."""
        return self._reconciler.retries

    @property
    def candidate_holds(self) -> dict[int, str]:
        """Why candidates get no replica now, by rollout."""
        return self._reconciler.candidate_holds

    @property
    def candidate_failures(self) -> dict[int, int]:
        """How many replicas of a candidate failed in a row, by rollout."""
        return self._reconciler.candidate_failures

    def start(self) -> None:
        """Begin the first pass."""
        self._thread.start()

    def wait_for_first_pass(self, seconds: float) -> bool:
        """Whatever came of it. False when it takes longer."""
        return self._has_passed.wait(seconds)

    def wake(self) -> None:
        """Look again now: something changed. Safe from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """End after the pass under way."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._calls.close()
        self._probes.close()

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            is_busy = self._pass()
            self._has_passed.set()
            self._wake.wait(_BUSY_SECONDS if is_busy else _CALM_SECONDS)

    def _pass(self) -> bool:
        self.num_passes += 1
        try:
            is_busy = self._reconciler.reconcile()
        # A locked database or a broken plugin must not end the loop: the next pass starts
        # from what is, and until then the error is shown on /healthz and counted.
        except Exception as error:  # noqa: BLE001
            self.num_failed_passes += 1
            self.error = f"{type(error).__name__}: {error}"
            _log.exception("pass failed")
            return False
        self.error = None
        return is_busy
