"""When a database server was away, in the history of the state directory.

A file beside the databases: what cannot be reached can hold no event about itself.
"""

import structlog

from controlplane.process_history import ProcessEvent, ProcessHistory
from controlplane.store.connection import DatabaseKind
from dataplane.clock import WallClock, monotonic_clock, wall_clock

_log = structlog.get_logger(__name__)


class DatabaseAbsences:
    """Notes each begin and end. One thread uses it."""

    def __init__(self, history: ProcessHistory, wall: WallClock = wall_clock) -> None:
        self._history = history
        self._wall = wall
        self._lost_at: dict[DatabaseKind, float] = {}

    def note(self, kind: DatabaseKind, is_held: bool) -> None:
        """The control plane lost its connection, or has the database again."""
        if is_held:
            lost_at = self._lost_at.pop(kind, None)
            lasted = "" if lost_at is None else f" after {monotonic_clock() - lost_at:.0f} s"
            self._enter(kind, "regained", f"its server answers again{lasted}")
        else:
            self._lost_at[kind] = monotonic_clock()
            self._enter(kind, "lost", "the connection to its server broke")

    def _enter(self, kind: DatabaseKind, what: str, reason: str) -> None:
        event = ProcessEvent(
            at_unix_ns=self._wall(), name=kind.value, role="database", what=what, reason=reason
        )
        try:
            self._history.note(event)
        except OSError as error:
            _log.warning("not in the history", database=kind.value, what=what, error=str(error))
