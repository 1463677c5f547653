"""Passes of the real reconciler, one by one, over a fleet that an ended control plane left.

    python -m ops.bench.fleet.passes STATE_DIR CONFIG_URL NUM_DEPLOYMENTS

In a process of its own, so that nothing else is in the figures. Prints one JSON object.
"""

import itertools
import json
import logging
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import event

from controlplane.operator.calls import Calls
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.probes import Probes
from controlplane.operator.reconcile import Reconciler
from controlplane.specs.documents import load_documents
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database, open_database
from controlplane.store.revisions import apply_documents
from dataplane.clock import monotonic_clock
from ops.bench.fleet import documents
from ops.bench.fleet.installation import num_unsettled

_MAX_PASSES = 2000
_NUM_CALM = 5


@dataclass
class Passes:
    """One reconciler, its database's statements counted."""

    database: Database
    state_dir: Path
    statements: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        event.listen(self.database.engine, "before_cursor_execute", self._count)
        self.feed = SnapshotFeed()
        self.probes = Probes(on_done=lambda: None)
        self.calls = Calls(monotonic_clock)
        self.reconciler = Reconciler(
            self.database,
            InstalledPlugins(self.state_dir),
            ObservedState(),
            self.feed,
            self.probes,
            self.calls,
        )

    def _count(self, *told: Any) -> None:
        word = told[2].split(None, 1)[0].upper()
        self.statements["reads" if word == "SELECT" else "others"] += 1

    def run(self, number: int) -> dict[str, Any]:
        """So many, one after the other."""
        return self._measure(lambda done: done >= number)

    def until_settled(self) -> dict[str, Any]:
        """As many as it takes."""
        return self._measure(lambda done: done > 0 and not num_unsettled(self.database))

    def _measure(self, is_done: Any) -> dict[str, Any]:
        self.statements.clear()
        wall, processor = time.monotonic(), time.process_time()
        longest = 0.0
        for done in itertools.count():
            if is_done(done):
                break
            if done > _MAX_PASSES:
                raise TimeoutError("it does not settle")
            began = time.monotonic()
            self.reconciler.reconcile()
            longest = max(longest, time.monotonic() - began)
        return {
            "passes": done,
            "seconds": time.monotonic() - wall,
            "processor_seconds": time.process_time() - processor,
            "longest_pass_seconds": longest,
            "reads": self.statements["reads"],
            "other_statements": self.statements["others"],
        }

    def apply(self, texts: list[str]) -> float:
        """Processor seconds that it took to store."""
        files = [(each["name"], each["text"]) for each in documents.files(texts)]
        loaded = load_documents(files)
        assert not loaded.problems, loaded.problems[:3]
        began = time.process_time()
        with self.database.session() as session:
            apply_documents(session, loaded.documents, author="bench", reason="all at once")
        return time.process_time() - began

    def close(self) -> None:
        """End its threads."""
        self.calls.close()
        self.probes.close()
        self.database.close()


def main() -> None:
    state_dir, config_url = Path(sys.argv[1]), sys.argv[2]
    num_deployments = int(sys.argv[3])
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    passes = Passes(open_database(config_url, DatabaseKind.CONFIG), state_dir)
    found: dict[str, Any] = {"cold": passes.run(1), "calm": passes.run(_NUM_CALM)}
    policies = [documents.policy(n, max_queue=65) for n in range(num_deployments)]
    stored = passes.apply(policies)
    found["every policy changed"] = {**passes.until_settled(), "stored_seconds": stored}
    current = passes.feed.current
    found["snapshot_bytes"] = 0 if current is None else len(current.data)
    stored = passes.apply(documents.engines(max_num_seqs=33))
    found["every replica replaced"] = {**passes.until_settled(), "stored_seconds": stored}
    passes.close()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
