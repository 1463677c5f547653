"""The status file of a replica: where it stands in its life, for launchers to read.

Written atomically at every change, so a reader sees a whole status or the one before.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dataplane.atomic_file import replace_file
from dataplane.clock import MonotonicClock
from dataplane.engine import ReplicaStatus


class StatusFile:
    """Keeps the ReplicaStatus at `path` current. One thread writes it."""

    def __init__(
        self, path: Path, replica_id: str, clock: MonotonicClock, fencing_token: int = 0
    ) -> None:
        self._path = path
        self._clock = clock
        self._status = ReplicaStatus(
            replica_id=replica_id,
            pid=os.getpid(),
            stage="acquire",
            address=None,
            metrics_address=None,
            stages={},
            fencing_token=fencing_token,
        )

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure one stage of the start; its seconds count only when it succeeds."""
        self._write(stage=name)
        started_at = self._clock()
        yield
        seconds = self._clock() - started_at
        self._write(stages={**self._status.stages, name: seconds})

    def set_apart(self, name: str, seconds: float, whole: str) -> None:
        """Of the finished stage `whole`, `seconds` were a stage of their own, called `name`."""
        stages = dict(self._status.stages)
        part = min(seconds, stages[whole])
        self._write(stages={**stages, whole: stages[whole] - part, name: part})

    def note_unobservable(self, *stages: str) -> None:
        """They may have been, inside another one: the engine does not show them."""
        self._write(unobservable_stages=stages)

    def serve(self, address: str, metrics_address: str) -> None:
        """The replica can answer from now on."""
        self._write(stage="serving", address=address, metrics_address=metrics_address)

    def drain(self) -> None:
        """No new work is taken."""
        self._write(stage="draining")

    def fail(self, error: str) -> None:
        """The end, with what went wrong and the remedy."""
        self._write(stage="failed", error=error)

    def _write(self, **changes: Any) -> None:
        self._status = dataclasses.replace(self._status, **changes)
        replace_file(self._path, msgspec.json.encode(self._status))
