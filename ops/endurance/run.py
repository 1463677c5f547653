"""One run from its start to its verdict: bring up, send and strike, settle, end, audit."""

import asyncio
import collections
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec

from controlplane.store.connection import default_paths, sqlite_url
from controlplane.store.database import DatabaseKind, open_database
from dataplane import names
from dataplane.lifecycle import RequestCounts
from ops.endurance.attempt import Attempt, plan_attempt
from ops.endurance.audit import Accounts, Tally, audit
from ops.endurance.blows import Blow, Striker
from ops.endurance.client import send_all
from ops.endurance.documents import write_documents
from ops.endurance.installation import (
    START_SECONDS,
    Installation,
    NotInTimeError,
    open_files,
    processes_about,
    wait_for,
)
from ops.endurance.quiet import find_held
from ops.endurance.tiny_model import write_tiny_model

_SETTLE_SECONDS = 90.0
_WATCH_SECONDS = 0.5
_MAX_IDLE_SOCKETS = 16
_MAX_IDLE_FILES = 40
_STAYS = {
    *("config.db", "requests.db", "config.db-config-lock", "requests.db-requests-lock"),
    *("documents-applied", "serve.lock", "controlplane.lock"),
    *("process-events.jsonl", "process-events.jsonl.1"),  # bounded
}
_STAYING_FOLDERS = ("logs", "processes", "replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked of one run."""

    num_requests: int
    blows: Sequence[Blow]
    gap_seconds: float
    """Between two blows to the same process."""
    seed: int
    num_clients: int = 48
    num_replicas: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of it."""

    accounts: Accounts
    num_blows: int
    blows: dict[str, int]
    seconds: float
    requests_per_second: float
    num_leaked: int
    idle: dict[str, dict[str, int]]
    """Open files of each process once nothing runs any more."""
    num_count_checks: int
    """How often the gateway's counts were looked at in mid-flight."""
    wrong: list[str]
    """All that is wrong; empty is what is hoped for."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def run(plan: Plan, folder: Path) -> Verdict:
    """In `folder`, which is empty; everything that was started has ended on return."""
    installation = Installation(folder / "state", plan.num_replicas)
    artifact = write_tiny_model(folder / "tiny.gguf", plan.seed)
    documents = write_documents(folder / "documents", artifact, plan.num_replicas)
    try:
        installation.start(documents)
        wait_for(installation.is_whole, START_SECONDS, "every process to be up")
        return _run(plan, installation)
    except NotInTimeError as error:
        raise NotInTimeError(f"{error}; serve said: {installation.last_words()}") from error
    finally:
        installation.end_by_force()


def _run(plan: Plan, installation: Installation) -> Verdict:
    began = time.monotonic()
    striker = Striker(
        installation=installation,
        blows=plan.blows,
        num_requests=plan.num_requests,
        gap_seconds=plan.gap_seconds,
        random=Random(plan.seed),
    )
    watch = CountWatch(installation)
    attempts = asyncio.run(_send_and_strike(plan, installation, striker, watch))
    seconds = time.monotonic() - began
    wait_for(installation.is_whole, _SETTLE_SECONDS, "every process to be up again")
    wait_for(installation.holds_nothing, _SETTLE_SECONDS, "nothing to be held any more")
    watch.look()
    watch.hear_last_words()
    wrong = [
        *watch.wrong,
        *find_held(installation.holdings()),
        *_find_held_blocks(installation),
    ]
    num_leaked = _num_leaked(installation)
    idle = {each.name: open_files(each.pid) for each in installation.alive()}
    wrong += _find_open_files(idle)
    status = installation.stop()
    if status != 0:
        wrong.append(f"serve ended with exit code {status}: see {installation.log_path}")
    wrong += _find_left_behind(installation)
    accounts = _audit(installation, attempts, striker, watch.tallies)
    if num_leaked:
        wrong.append(f"replicas report leaked requests: {num_leaked}")
    return Verdict(
        accounts=accounts,
        num_blows=len(striker.struck),
        blows=dict(
            collections.Counter(f"{each.role} {each.signal_name}" for each in striker.struck)
        ),
        seconds=seconds,
        requests_per_second=len(attempts) / seconds,
        num_leaked=num_leaked,
        idle=idle,
        num_count_checks=watch.num_checks,
        wrong=[*wrong, *accounts.wrong],
    )


async def _send_and_strike(
    plan: Plan, installation: Installation, striker: Striker, watch: "CountWatch"
) -> list[Attempt]:
    begun = [0]

    def attempts() -> Iterator[Attempt]:
        for number in range(plan.num_requests):
            begun[0] = number + 1
            yield plan_attempt(plan.seed, number)

    striking = asyncio.create_task(striker.run(lambda: begun[0]))
    watching = asyncio.create_task(watch.run())
    try:
        address = ("127.0.0.1", installation.gateway_port)
        sent = await send_all(address, attempts(), plan.num_clients)
        if striking.done():
            striking.result()
        return sent
    finally:
        for task in (striking, watching):
            task.cancel()
        await asyncio.gather(striking, watching, return_exceptions=True)


class CountWatch:
    """Checks the gateway's counts in mid-flight, again and again."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.num_checks = 0
        self.wrong: list[str] = []
        self.tallies: dict[str, Tally] = {}
        """By gateway id, of every gateway that was seen."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """One snapshot; none while the gateway is away."""
        try:
            live = self._installation.live()
        except httpx.HTTPError:
            return
        counts = msgspec.convert(live["counts"], RequestCounts)
        self.num_checks += 1
        self.tallies[live["gateway_id"]] = Tally(num_arrived=counts.arrived)
        try:
            counts.check_integrity()
        except AssertionError as error:
            self.wrong.append(f"counts of {live['gateway_id']}: {error}")
        if counts.active + counts.undecided > len(live["requests"]):
            self.wrong.append(f"{counts} counts more than the {len(live['requests'])} in flight")

    def hear_last_words(self) -> None:
        """Of the gateway that serves, once it holds nothing: these are exact."""
        report = self._installation.gateway_report()
        self.tallies[report["gateway_id"]] = Tally(
            num_arrived=report["counts"]["arrived"], num_lost=report["num_records_lost"]
        )


def _num_leaked(installation: Installation) -> int:
    gauges = installation.replica_gauges().values()
    return int(sum(gauge[names.REPLICA_LEAKED_REQUESTS_TOTAL] for gauge in gauges))


def _find_held_blocks(installation: Installation) -> list[str]:
    return [
        f"replica {name}: {gauge[names.REPLICA_KV_BLOCKS_FREE]:g} of "
        f"{gauge[names.REPLICA_KV_BLOCKS]:g} blocks are free"
        for name, gauge in installation.replica_gauges().items()
        if gauge[names.REPLICA_KV_BLOCKS_FREE] != gauge[names.REPLICA_KV_BLOCKS]
    ]


def _find_open_files(idle: dict[str, dict[str, int]]) -> list[str]:
    return [
        f"{name} keeps open, with nothing to do, {counts}"
        for name, counts in idle.items()
        if counts["deleted"]
        or counts["socket"] > _MAX_IDLE_SOCKETS
        or counts["file"] > _MAX_IDLE_FILES
    ]


def _find_left_behind(installation: Installation) -> list[str]:
    """Processes that still run, and files that no later start has a use for."""
    state_dir = installation.state_dir
    return [f"a process is left: {pid}" for pid in processes_about(state_dir)] + [
        f"a file is left: {path.relative_to(state_dir)}"
        for path in sorted(state_dir.rglob("*"))
        if not _is_expected(path, path.relative_to(state_dir))
    ]


def _is_expected(path: Path, inside: Path) -> bool:
    if inside.parts[0] in _STAYING_FOLDERS or inside.name in _STAYS:
        return True
    if inside.parts[0] != "gateways":
        return False
    # Of each gateway its own two files, and no folder of one that is gone.
    is_folder = path.is_dir() and len(inside.parts) < 4
    return is_folder or inside.name in ("snapshot.json", "status.json")


def _audit(
    installation: Installation,
    attempts: Sequence[Attempt],
    striker: Striker,
    tallies: Mapping[str, Tally],
) -> Accounts:
    path = default_paths(installation.state_dir)[DatabaseKind.REQUESTS]
    database = open_database(sqlite_url(path), DatabaseKind.REQUESTS)
    try:
        return audit(database, attempts, striker.struck, tallies)
    finally:
        database.close()
