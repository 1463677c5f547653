"""Where the newest snapshot is had from, whole or as what is different since an earlier one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from dataplane.policy import Snapshot, encode_snapshot
from dataplane.snapshot_change import change_between, encode_change


@dataclass(frozen=True)
class PublishedSnapshot:
    """One version as it is sent."""

    snapshot: Snapshot

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.snapshot.version

    @cached_property
    def data(self) -> bytes:
        """JSON on one line."""
        return encode_snapshot(self.snapshot)


class SnapshotFeed:
    """The newest snapshot, and whoever wants to hear of the next. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: PublishedSnapshot | None = None
        self._listeners: set[Callable[[], object]] = set()
        self._last_change: tuple[PublishedSnapshot, PublishedSnapshot, bytes] | None = None

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
            self._current = PublishedSnapshot(snapshot)
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def change(self, base: PublishedSnapshot, new: PublishedSnapshot) -> bytes:
        """What makes `new` of `base`, as it is sent: JSON on one line. Worked out once for all who
        have the same base, and nearly all have."""
        with self._lock:
            last = self._last_change
            if last is not None and last[0] is base and last[1] is new:
                return last[2]
        data = encode_change(change_between(base.snapshot, new.snapshot))
        with self._lock:
            self._last_change = base, new, data
        return data

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
