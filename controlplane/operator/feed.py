"""Where the newest snapshot is had from."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dataplane.policy import Snapshot, encode_snapshot


@dataclass(frozen=True, slots=True)
class PublishedSnapshot:
    """One version as it is sent."""

    version: int
    data: bytes
    """JSON on one line."""


class SnapshotFeed:
    """The newest snapshot, and whoever wants to hear of the next. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: PublishedSnapshot | None = None
        self._listeners: set[Callable[[], object]] = set()

    @property
    def current(self) -> PublishedSnapshot | None:
        """None until the operator has looked for the first time: nobody knows anything yet,
        and an empty snapshot would cut gateways off from replicas that are fine."""
        return self._current

    def publish(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the current one; listeners hear of it if its version is new."""
        with self._lock:
            if self._current is not None and self._current.version == snapshot.version:
                return
            self._current = PublishedSnapshot(snapshot.version, encode_snapshot(snapshot))
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Inside, `listener` is called from the publisher's thread after every change."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)
