"""The last answer about each deployment, in memory: it is made anew every few seconds."""

import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDiagnosis:
    """Of one deployment, at one time."""

    deployment: str
    at_unix_ns: int
    mechanism: str
    confidence: str | None
    diagnosis: dict[str, Any]
    """In the form of `controlplane.diagnosis.json_form`."""
    num_replicas: int
    """That ran, asked or not."""
    num_telling: int
    """Of them, those whose metrics it is by: of a large fleet a few are asked in one turn."""
    silent: dict[str, str]
    """Why nothing was known of a replica, by replica."""
    failed_rules: tuple[str, ...]
    """Ids of rules that failed, and said nothing for that."""


class Diagnoses:
    """One thread writes, others read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, LastDiagnosis] = {}

    def put(self, last: LastDiagnosis) -> None:
        """Replaces the one before."""
        with self._lock:
            self._last[last.deployment] = last

    def keep_only(self, deployments: frozenset[str]) -> None:
        """Forget those of others: nothing of them runs."""
        with self._lock:
            self._last = {key: each for key, each in self._last.items() if key in deployments}

    def find(self, deployment: str) -> LastDiagnosis | None:
        """None: it was not looked at yet."""
        with self._lock:
            return self._last.get(deployment)

    def all(self) -> list[LastDiagnosis]:
        """By deployment."""
        with self._lock:
            return [self._last[name] for name in sorted(self._last)]
