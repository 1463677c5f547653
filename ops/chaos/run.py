"""Cases against one installation from its start to its verdict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog
from sqlalchemy import select

from controlplane.store.connection import default_paths, sqlite_url
from controlplane.store.database import DatabaseKind, open_database
from controlplane.store.request_tables import RequestRow
from dataplane.lifecycle import RequestCounts
from ops.chaos.accounts import CaseAccounts, find_mixed_revisions, settle
from ops.chaos.cases import Case
from ops.chaos.documents import NUM_REPLICAS, Service
from ops.chaos.faults import Striker
from ops.chaos.place import Place, wait_until
from ops.chaos.traffic import Traffic
from ops.chaos.trial import Outcome, Trials
from ops.endurance.attempt import Attempt
from ops.endurance.audit import Tally, audit
from ops.endurance.installation import START_SECONDS, Installation
from tests.postgresql import Cluster, running_cluster

_NUM_CALLERS = 4
_SETTLE_SECONDS = 60.0
_DURABLE = {"synchronous_commit": "on"}
"""The server of the tests forgets what was committed right before it is killed."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of it."""

    database: str
    outcomes: list[tuple[Outcome, CaseAccounts]]
    num_calls: int
    num_recorded: int
    wrong: list[str]
    """Of all cases together; empty is what is hoped for."""

    @property
    def all_wrong(self) -> list[str]:
        """With what is wrong in each case."""
        return [
            *(
                f"{outcome.case.told}: {line}"
                for outcome, accounts in self.outcomes
                for line in (*outcome.wrong, *accounts.wrong)
            ),
            *self.wrong,
        ]


def run(cases: Iterable[Case], folder: Path, database: str, seed: int = 1) -> Verdict:
    """On `database`, sqlite or postgresql, in `folder`, which is empty; everything that was started
    has ended on return."""
    with _databases(database) as (cluster, urls):
        options = [word for name, url in urls.items() for word in (f"--{name}-url", url)]
        installation = Installation(folder / "state", NUM_REPLICAS, options=tuple(options))
        documents = folder / "documents"
        documents.mkdir()
        (documents / "rolled.yaml").write_text(Service().documents())
        traffic = Traffic(installation.gateway_port, _NUM_CALLERS, seed)
        try:
            installation.start(documents)
            place = Place(installation)
            wait_until(installation.is_whole, START_SECONDS, "every process to be up")
            outcomes = _try(cases, Trials(place, traffic, Striker(place, cluster)))
            tallies = _hear_last_words(installation)
            status = installation.stop()
            ends = [] if status == 0 else [f"serve ended with exit code {status}"]
            url = urls.get("requests") or sqlite_url(
                default_paths(installation.state_dir)[DatabaseKind.REQUESTS]
            )
            return _judge(database, url, traffic.attempts, outcomes, tallies, ends)
        finally:
            installation.end_by_force()


def _try(cases: Iterable[Case], trials: Trials) -> list[Outcome]:
    trials.traffic.start()
    outcomes = []
    try:
        for case in cases:
            outcomes.append(trials.run(case))
            _log.info("tried", case=case.told, seconds=round(outcomes[-1].seconds, 1))
            # What is not whole is no place to try anything else.
            if outcomes[-1].wrong:
                break
    finally:
        trials.traffic.stop()
    return outcomes


def _hear_last_words(installation: Installation) -> Mapping[str, Tally]:
    """Of the gateway, once it holds nothing; its counts must fit."""
    wait_until(installation.holds_nothing, _SETTLE_SECONDS, "nothing to be held any more")
    report = installation.gateway_report()
    counts = msgspec.convert(report["counts"], RequestCounts)
    counts.check_integrity()
    tally = Tally(num_arrived=counts.arrived, num_lost=report["num_records_lost"])
    return {report["gateway_id"]: tally}


def _judge(
    name: str,
    url: str,
    attempts: Sequence[Attempt],
    outcomes: Sequence[Outcome],
    tallies: Mapping[str, Tally],
    ends: list[str],
) -> Verdict:
    database = open_database(url, DatabaseKind.REQUESTS)
    try:
        accounts = audit(database, attempts, [], tallies)
        with database.reading() as session:
            rows = list(session.scalars(select(RequestRow)))
            by_trace = {row.trace_id: row for row in rows}
            settled = [(each, settle(each, attempts, by_trace)) for each in outcomes]
            mixed = find_mixed_revisions(rows)
    finally:
        database.close()
    return Verdict(
        database=name,
        outcomes=settled,
        num_calls=len(attempts),
        num_recorded=accounts.num_recorded,
        wrong=[*ends, *accounts.wrong, *mixed],
    )


@contextmanager
def _databases(name: str) -> Iterator[tuple[Cluster | None, dict[str, str]]]:
    """A server that can be killed, and the URL of each database that it has; SQLite has neither."""
    if name == "sqlite":
        yield None, {}
        return
    with running_cluster(_DURABLE) as cluster:
        yield cluster, dict.fromkeys(("config", "requests"), cluster.url(cluster.create()))
