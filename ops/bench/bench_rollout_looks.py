"""What looking at rollouts costs the control plane, and how long a bad candidate stays.

    .venv/bin/python ops/bench/bench_rollout_looks.py
    .venv/bin/python ops/bench/bench_rollout_looks.py --rollouts 1 --requests 200000

Stores that many requests, a quarter of them the candidate's, for each of the rollouts of as many
deployments in databases of SQLite, and has the real worker turn over them: the first turn after a
start of the control plane, the next ones (with `--arriving` new requests for each rollout between
two of them), and one in which a candidate of them all has turned bad. A turn in which nothing is
due is left out. Processor seconds and wall seconds of each turn, and the wall seconds from the last
bad request in the store until its rollout is aborted. Goal: under 5 s.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, cast

from sqlalchemy import Table, insert

from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.operator import Operator
from controlplane.rollouts.machine import RolloutState
from controlplane.rollouts.worker import RolloutWorker
from controlplane.specs.documents import load_documents
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database
from controlplane.store.request_rows import compact_row
from controlplane.store.request_tables import RequestRow
from controlplane.store.revisions import apply_documents
from controlplane.store.rollouts import find_rollout, list_living
from dataplane.arm import Arm
from dataplane.clock import wall_clock
from ops.sample_requests import Sample, answered, failed

_SHARED = """\
kind: Model
metadata: {name: smollm2}
spec: {artifact: {path: /models/smollm2.gguf}}
---
kind: EngineConfig
metadata: {name: attached}
spec: {engine: openai, settings: {model: smollm2}}
---
kind: SLOContract
metadata: {name: chat}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {signal: ttft, at_most: 300ms, for: 95%}
        - {signal: tpot, at_most: 40ms, for: 95%}
        - {signal: availability, for: 99%}
"""
_DEPLOYMENT = """\
---
kind: AdmissionPolicy
metadata: {name: policy-NUMBER}
spec: {classes: [{name: interactive, max_queue: QUEUE}]}
---
kind: Deployment
metadata: {name: chat-NUMBER}
spec:
  {model: smollm2, engine: attached, policy: policy-NUMBER, contract: chat, replicas: 2,
   rollout: {steps: [{share: 25%, for: 1h}, {share: 50%, for: 1h}], timeout: 6h}}
"""
_BATCH = 5000
_NUM_TURNS = 5
_PAUSE_SECONDS = 3.1
"""After it each rollout is due again."""


@dataclass(slots=True)
class Installation:
    """Databases, and the worker over them."""

    config_db: Database
    request_db: Database
    worker: RolloutWorker
    num_stored: int = 0
    kinds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def begin(self, num_rollouts: int) -> list[int]:
        """One of each deployment; their numbers, all of them at their first step."""
        for queue in ("64", "65"):
            texts = [
                _DEPLOYMENT.replace("NUMBER", str(number)).replace("QUEUE", queue)
                for number in range(num_rollouts)
            ]
            result = load_documents([("fleet.yaml", _SHARED + "".join(texts))])
            assert not result.problems, "\n".join(map(str, result.problems))
            with self.config_db.session() as session:
                apply_documents(session, result.documents, author="bench", reason="")
        self.worker.turn()
        with self.config_db.reading() as session:
            living = list_living(session)
        assert all(each.progress.state is RolloutState.RUNNING for each in living)
        return [each.number for each in living]

    def store(self, rollouts: Sequence[int], num: int, bad: int | None = None) -> None:
        """So many requests of each, of which every fourth is the candidate's; those of the
        candidate of `bad` fail."""
        with self.config_db.reading() as session:
            names = {each.number: each.deployment for each in list_living(session)}
        rows = (
            self._row(rollout, names[rollout], Arm.STABLE if n % 4 else Arm.CANDIDATE, bad)
            for n in range(num)
            for rollout in rollouts
        )
        while batch := list(islice(rows, _BATCH)):
            with self.request_db.session() as session:
                session.execute(insert(cast(Table, RequestRow.__table__)), batch)

    def _row(self, rollout: int, deployment: str, arm: Arm, bad: int | None) -> dict[str, Any]:
        kind = "failed" if bad == rollout and arm is Arm.CANDIDATE else "answered"
        samples = self.kinds[kind]
        self.num_stored += 1
        return {
            **samples[self.num_stored % len(samples)],
            "gateway_sequence": self.num_stored,
            "arrived_at_unix_ns": wall_clock(),
            "deployment": deployment,
            "rollout": rollout,
            "arm": arm.value,
            "contract_revision": "chat@1",
        }

    def turn(self) -> tuple[float, float]:
        """Processor seconds and wall seconds."""
        processor, wall = time.process_time(), time.monotonic()
        self.worker.turn()
        return time.process_time() - processor, time.monotonic() - wall


def _samples() -> dict[str, list[dict[str, Any]]]:
    random = Random(1)
    made = [
        Sample(
            sequence=n,
            arrived_at_unix_ns=0,
            num_prompt_tokens=int(random.lognormvariate(5, 1)) + 1,
            num_output_tokens=int(random.lognormvariate(4, 0.7)) + 2,
            prefill_seconds=random.lognormvariate(-3, 0.5),
            token_seconds=random.lognormvariate(-3.9, 0.2),
        )
        for n in range(199)
    ]
    tells = {"answered": answered, "failed": failed}
    return {kind: [compact_row(tell(sample)) for sample in made] for kind, tell in tells.items()}


def open_installation(folder: Path) -> Installation:
    """An empty one."""
    config_db, request_db = (
        create_or_open_database(sqlite_url(folder / f"{kind}.db"), kind)
        for kind in (DatabaseKind.CONFIG, DatabaseKind.REQUESTS)
    )
    observed = ObservedState(wall_clock)
    operator = Operator(config_db, InstalledPlugins(folder), observed, SnapshotFeed())
    worker = RolloutWorker(config_db, request_db, operator, observed)
    return Installation(config_db, request_db, worker, kinds=_samples())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=20)
    parser.add_argument("--requests", type=int, default=10_000, help="of each rollout, both arms")
    parser.add_argument("--arriving", type=int, default=30, help="of each, between two turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        installation = open_installation(Path(folder))
        rollouts = installation.begin(options.rollouts)
        installation.store(rollouts, options.requests)
        print(f"{options.rollouts} rollouts, {installation.num_stored:,} requests")
        for number in range(_NUM_TURNS):
            time.sleep(_PAUSE_SECONDS)
            processor, wall = installation.turn()
            which = "first turn" if not number else "next turn"
            print(f"{which}: {processor:.2f} s of a processor, {wall:.2f} s", flush=True)
            installation.store(rollouts, options.arriving)
        _go_bad(installation, rollouts)


def _go_bad(installation: Installation, rollouts: Sequence[int]) -> None:
    """The candidate of the last rollout fails from now on."""
    bad = rollouts[-1]
    installation.store(rollouts[-1:], 4 * 2000, bad)
    began = time.monotonic()
    while True:
        installation.turn()
        with installation.config_db.reading() as session:
            rollout = find_rollout(session, bad)
        if rollout is not None and rollout.progress.state is RolloutState.ABORTED:
            break
        time.sleep(1.0)
    seconds = time.monotonic() - began
    print(f"aborted {seconds:.2f} s after its last bad request: {rollout.progress.reason}")


if __name__ == "__main__":
    main()
