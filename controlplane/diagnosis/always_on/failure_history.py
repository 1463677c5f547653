"""Which deployments lost a replica of late, and what those replicas wrote last."""

from pathlib import Path

from controlplane.diagnosis.always_on.failure_log import (
    Failure,
    given_up,
    newest_failures,
    read_failure,
)
from controlplane.diagnosis.sources.part import Part
from controlplane.store.database import Database
from controlplane.store.replicas import list_transitions_between

_FAILURES_SECONDS = 900
"""A deployment none of whose replicas became ready for longer than that is left to its trouble: the
operator tries again within minutes."""
_GIVEN_UP_SECONDS = 90.0
"""That a replica hung is told for so long: two looks and more, and no longer than it matters."""
_MAX_TRANSITIONS = 2000


class FailureHistory:
    """Of all deployments."""

    def __init__(self, config_db: Database, logs_dir: Path) -> None:
        """`logs_dir` holds what replicas on this machine write, as `<replica>.log`."""
        self._config_db = config_db
        self._logs_dir = logs_dir
        self._failures: dict[str, Failure] = {}
        self._given_up: dict[str, Part] = {}
        self._parts: dict[str, Part] = {}
        """By replica: a log that ended is read once."""

    @property
    def failed(self) -> frozenset[str]:
        """Deployments whose last replica failed, with none ready since."""
        return frozenset(self._failures)

    @property
    def names(self) -> frozenset[str]:
        """These, and those of which a replica was given up as hung."""
        return self.failed | frozenset(self._given_up)

    def failed_at(self, deployment: str) -> float:
        """Unix seconds; 0 where none failed."""
        failure = self._failures.get(deployment)
        return 0.0 if failure is None else failure.at

    def take(self, at: float) -> None:
        """How it stands at `at`, in Unix seconds. Raises SQLAlchemyError."""
        start, end = round((at - _FAILURES_SECONDS) * 1e9), round((at + 1) * 1e9)
        with self._config_db.reading() as session:
            found = list_transitions_between(session, start, end, None, _MAX_TRANSITIONS)
        self._failures = newest_failures(found)
        self._given_up = given_up(found, at - _GIVEN_UP_SECONDS)
        known = {each.replica_id for each in self._failures.values()}
        self._parts = {key: part for key, part in self._parts.items() if key in known}

    def tell(self, deployment: str) -> tuple[Part, Part]:
        """What the one wrote that failed last, nothing where one became ready since; and which were
        given up."""
        return self._failed(deployment), self._given_up.get(deployment, Part())

    def _failed(self, deployment: str) -> Part:
        failure = self._failures.get(deployment)
        if failure is None:
            return Part()
        part = self._parts.get(failure.replica_id)
        if part is None:
            part = self._parts[failure.replica_id] = read_failure(failure, self._logs_dir)
        return part
