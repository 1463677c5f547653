"""One run of cancelled requests: bring up, cancel with moments of quiet between, end, audit."""

import asyncio
import collections
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
from sqlalchemy import func, select

from controlplane.store.connection import default_paths, sqlite_url
from controlplane.store.database import Database, DatabaseKind, open_database
from controlplane.store.request_tables import RequestRow
from dataplane import names
from dataplane.gateway.holdings import Held
from dataplane.lifecycle import Disposition, RequestCounts
from ops.endurance.attempt import Attempt
from ops.endurance.audit import Accounts, Tally, audit
from ops.endurance.cancel_documents import NUM_REPLICAS, write_cancel_documents
from ops.endurance.cancel_plan import plan_cancel
from ops.endurance.client import send_all
from ops.endurance.installation import START_SECONDS, Installation, wait_for
from ops.endurance.quiet import Quiet, QuietWatch
from ops.endurance.tiny_model import write_tiny_model
from ops.scraped_counts import counts_by_label

_SETTLE_SECONDS = 90.0
_WATCH_SECONDS = 0.2
_PHASES = ("body", "queue", "prefill", "decode")
_NUM_LOOKS_THAT_SEE_ALL = 500
_MAX_WRONG = 20
"""Findings of one kind of look that are told; a broken run would tell the same for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPlan:
    """What is asked of one run."""

    num_cancels: int
    """Clients that leave before the end of their answer, or with it."""
    seed: int
    num_quiets: int = 10
    num_clients: int = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelVerdict:
    """What came of it."""

    accounts: Accounts
    num_left: int
    left_in: dict[str, int]
    """Cancelled requests by the phase in which their end fell, as their records say."""
    rejected: dict[str, int]
    """By the code of the error."""
    peaks: dict[str, int]
    """The most that was held of each kind."""
    num_looks: int
    """At the counts and leases, in flight."""
    quiets: list[Quiet]
    seconds: float
    wrong: list[str]
    """All that is wrong; empty is what is hoped for."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def run_cancels(plan: CancelPlan, folder: Path) -> CancelVerdict:
    """In `folder`, which is empty; everything that was started has ended on return."""
    installation = Installation(folder / "state", NUM_REPLICAS + 1)
    artifact = write_tiny_model(folder / "tiny.gguf", plan.seed)
    try:
        installation.start(write_cancel_documents(folder / "documents", artifact))
        wait_for(installation.is_whole, START_SECONDS, "every process to be up")
        return _run(plan, installation)
    finally:
        installation.end_by_force()


def _run(plan: CancelPlan, installation: Installation) -> CancelVerdict:
    began = time.monotonic()
    watch = QuietWatch(installation)
    canceller = Canceller(plan, installation, watch)
    quiets = []
    for number in range(1, plan.num_quiets + 1):
        asyncio.run(canceller.cancel_until(plan.num_cancels * number // plan.num_quiets))
        quiets.append(watch.look(canceller.num_left))
    wait_for(installation.holds_nothing, _SETTLE_SECONDS, "every record to have arrived")
    seconds = time.monotonic() - began
    rejected = _read_rejected(installation.gateway_metrics())
    report = installation.gateway_report()
    tally = Tally(num_arrived=report["counts"]["arrived"], num_lost=report["num_records_lost"])
    status = installation.stop()
    wrong = [*canceller.wrong[:_MAX_WRONG], *(line for quiet in quiets for line in quiet.wrong)]
    if status != 0:
        wrong.append(f"serve ended with exit code {status}: see {installation.log_path}")
    path = default_paths(installation.state_dir)[DatabaseKind.REQUESTS]
    database = open_database(sqlite_url(path), DatabaseKind.REQUESTS)
    try:
        accounts = audit(database, canceller.attempts, [], {report["gateway_id"]: tally})
        left_in = _count_phases(database)
        wrong += _find_unreleased(database)
    finally:
        database.close()
    return CancelVerdict(
        accounts=accounts,
        num_left=canceller.num_left,
        left_in=left_in,
        rejected=rejected,
        peaks=dict(watch.peaks),
        num_looks=canceller.num_looks,
        quiets=quiets,
        seconds=seconds,
        wrong=[*wrong, *accounts.wrong, *_find_unseen(watch, canceller, left_in)],
    )


def _find_unseen(
    watch: QuietWatch, canceller: "Canceller", left_in: Mapping[str, int]
) -> list[str]:
    """What a long run must have come across; else it has shown nothing of it."""
    if canceller.num_looks < _NUM_LOOKS_THAT_SEE_ALL:
        return []
    unseen = [f"{kind} were never held" for kind in Held if not watch.peaks[kind]]
    return unseen + [
        f"nobody was cancelled in {phase}" for phase in _PHASES if phase not in left_in
    ]


class Canceller:
    """Carries attempts out, and looks at what is held meanwhile."""

    def __init__(self, plan: CancelPlan, installation: Installation, watch: QuietWatch) -> None:
        self.attempts: list[Attempt] = []
        self.num_left = 0
        self.num_looks = 0
        self.wrong: list[str] = []
        self._plan = plan
        self._installation = installation
        self._watch = watch
        self._next = 0

    async def cancel_until(self, num_left: int) -> None:
        """Until so many in all have left, and nobody is under way any more."""
        looking = asyncio.create_task(self._look_again_and_again())
        try:
            address = ("127.0.0.1", self._installation.gateway_port)
            self.attempts += await send_all(address, self._plans(num_left), self._plan.num_clients)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        self.num_left = sum(attempt.has_left for attempt in self.attempts)

    def _plans(self, num_left: int) -> Iterator[Attempt]:
        begun: list[Attempt] = []
        num_before, num_known, num_seen = self.num_left, 0, 0
        while num_before + num_known < num_left:
            attempt = plan_cancel(self._plan.seed, self._next)
            self._next += 1
            begun.append(attempt)
            yield attempt
            # Whoever is under way may still leave: counted once it has.
            while num_seen < len(begun) and begun[num_seen].ended_at_unix_ns:
                num_known += begun[num_seen].has_left
                num_seen += 1

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            self.wrong += await asyncio.to_thread(self._look)
            self.num_looks += 1

    def _look(self) -> list[str]:
        wrong = self._watch.look_in_flight()
        try:
            counts = msgspec.convert(self._installation.live()["counts"], RequestCounts)
            counts.check_integrity()
        except httpx.HTTPError as error:
            wrong.append(f"the gateway does not answer: {error}")
        except AssertionError as error:
            wrong.append(f"counts: {error}")
        return wrong


def _read_rejected(metrics: str) -> dict[str, int]:
    found = counts_by_label(metrics, names.GATEWAY_REJECTED_TOTAL, names.LABEL_REASON)
    return dict(found.most_common())


def _count_phases(database: Database) -> dict[str, int]:
    """In which phase those that were cancelled ended."""
    phases: collections.Counter[str] = collections.Counter()
    with database.reading() as session:
        for row in session.scalars(select(RequestRow)):
            if row.disposition == Disposition.CANCELLED.value:
                phases[_phase(row)] += 1
            elif row.disposition == Disposition.INVALID.value and row.status_code is None:
                phases["body"] += 1
    return dict(phases.most_common())


def _find_unreleased(database: Database) -> list[str]:
    """Finished is not released: an engine that had work of theirs must have given all back."""
    with database.reading() as session:
        begun = select(func.count()).where(RequestRow.scheduled.is_not(None))
        number = session.scalar(begun.where(RequestRow.released.is_(None)))
    return [f"{number} requests were never seen released"] if number else []


def _phase(row: RequestRow) -> str:
    if row.scheduled is None:
        return "queue"
    return "prefill" if row.first_token is None else "decode"
