"""What one control plane holds open while it runs: both databases, and the operator over them.

Apart from the application, because it imports in half the time: the operator's first pass can
start a replica, which takes longest of all, while the application is still being imported.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.worker import DiagnosisWorker
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.operator import Operator
from controlplane.operator.settings import OperatorSettings
from controlplane.process_history import ProcessHistory
from controlplane.retention_worker import RetentionWorker
from controlplane.rollouts.worker import RolloutWorker
from controlplane.slo.alerting_settings import AlertingSettings
from controlplane.slo.alerting_worker import AlertingWorker
from controlplane.store.database import Database, DatabaseKind, open_database
from controlplane.store.retention import StorageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenState:
    """Opened whole or not at all, and closed in reverse."""

    config_db: Database
    request_db: Database
    observed: ObservedState
    snapshots: SnapshotFeed
    operator: Operator
    retention: RetentionWorker
    """Begins with the application."""
    diagnosis: DiagnosisWorker
    """So does it."""
    alerting: AlertingWorker
    """And this."""
    rollouts: RolloutWorker
    """And this."""
    process_history: ProcessHistory
    _stack: ExitStack

    @classmethod
    def open(
        cls,
        state_dir: Path,
        config_url: str,
        requests_url: str,
        operator_settings: OperatorSettings,
        storage: StorageSettings | None = None,
        always_on: AlwaysOnSettings | None = None,
        alerting: AlertingSettings | None = None,
    ) -> Self:
        """Open the databases and begin the operator's first pass.

        Raises SchemaError when a database must not be used as it is.
        """
        with ExitStack() as stack:
            config_db = open_database(config_url, DatabaseKind.CONFIG)
            stack.callback(config_db.close)
            storage = storage or StorageSettings()
            request_db = open_database(requests_url, DatabaseKind.REQUESTS, storage.reserve_bytes)
            stack.callback(request_db.close)
            retention = RetentionWorker(request_db, storage.retention)
            stack.callback(retention.stop)
            observed, snapshots = ObservedState(), SnapshotFeed()
            processes = ProcessHistory(state_dir)
            diagnosis = DiagnosisWorker(
                config_db,
                request_db,
                observed,
                processes,
                state_dir / "logs",
                always_on or AlwaysOnSettings(),
            )
            stack.callback(diagnosis.stop)
            evaluating = AlertingWorker(
                config_db, request_db, observed, alerting or AlertingSettings()
            )
            stack.callback(evaluating.stop)
            operator = Operator(
                config_db, InstalledPlugins(state_dir), observed, snapshots, operator_settings
            )
            stack.callback(operator.stop)
            rollouts = RolloutWorker(
                config_db, request_db, operator, observed, on_move=operator.wake
            )
            stack.callback(rollouts.stop)
            operator.start()
            return cls(
                config_db=config_db,
                request_db=request_db,
                observed=observed,
                snapshots=snapshots,
                operator=operator,
                retention=retention,
                diagnosis=diagnosis,
                alerting=evaluating,
                rollouts=rollouts,
                process_history=processes,
                _stack=stack.pop_all(),
            )

    def close(self) -> None:
        """End the operator after its pass under way, then close the databases."""
        self._stack.close()
