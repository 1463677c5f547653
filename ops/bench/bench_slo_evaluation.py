"""What it costs the control plane to evaluate every objective by itself.

    .venv/bin/python ops/bench/bench_slo_evaluation.py
    .venv/bin/python ops/bench/bench_slo_evaluation.py --deployments 10 --classes 2 --hours 26

Makes up the exact counts of a large installation (50 deployments of 8 classes of 4 objectives, two
tenants each, six hours by the minute and three days by the hour), evaluates all promises as often
as the control plane does in five minutes while one minute's counts are added after the other, and
prints how long the first evaluation and each of those that follow take. Goal: less than 2 % of a
core at one evaluation every 30 s.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

from sqlalchemy import insert

from controlplane.slo.alert_windows import DAY, HOUR, MINUTE
from controlplane.slo.evaluation import AlertCourse, alerts_of
from controlplane.slo.prometheus.links import Links
from controlplane.slo.promised import Promise
from controlplane.slo.reading import StandingReader
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database
from controlplane.store.request_tables import HourCountRow, MinuteCountRow

_OBJECTIVES = ("ttft", "tpot", "availability", "together")
_TENANTS = ("acme", "globex")
_OTHERS = (
    *("offered", "disposition.stop", "in_contract.good", "in_contract.total", "tokens.input"),
    *("tokens.output", "tokens.cached", "ttft.30", "ttft.31", "ttft.32"),
)
_MEASURES = (
    *_OTHERS,
    *(f"objective.{name}.{word}" for name in _OBJECTIVES for word in ("good", "total")),
)
_NOW = 1_790_000_000 // HOUR * HOUR + 30 * MINUTE
_EVERY = 30


def promises(num_deployments: int, num_classes: int) -> list[Promise]:
    """All of them, at 99 % over 30 days."""
    return [
        Promise(
            deployment=f"deployment-{deployment}",
            request_class=f"class-{number}",
            objective=objective,
            at_most_seconds=None,
            target=0.99,
            period_seconds=30 * DAY,
            contract_revision="chat@1",
        )
        for deployment, number in product(range(num_deployments), range(num_classes))
        for objective in _OBJECTIVES
    ]


def _fill(database: Database, promised: list[Promise], column: str, times: range) -> None:
    scopes = dict.fromkeys((each.deployment, each.request_class) for each in promised)
    table = HourCountRow if column == "hour_unix" else MinuteCountRow

    def rows() -> Iterator[dict[str, str | int]]:
        for at, scope, tenant, measure in product(times, scopes, _TENANTS, _MEASURES):
            yield {
                column: at,
                "deployment": scope[0],
                "request_class": scope[1],
                "tenant": tenant,
                "contract_revision": "chat@1",
                "measure": measure,
                "value": 99 if measure.endswith(".good") else 100,
            }

    with database.session() as session:
        made = rows()
        while some := list(islice(made, 20_000)):
            session.execute(insert(table), some)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--deployments", type=int, default=50)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--hours", type=int, default=72, help="before the six by the minute")
    given = parser.parse_args()
    promised = promises(given.deployments, given.classes)
    with tempfile.TemporaryDirectory() as folder:
        url = sqlite_url(Path(folder) / "requests.db")
        database = create_or_open_database(url, DatabaseKind.REQUESTS)
        hour = _NOW // HOUR * HOUR
        _fill(database, promised, "minute_unix", range(_NOW - 6 * HOUR, _NOW, MINUTE))
        _fill(database, promised, "hour_unix", range(hour - given.hours * HOUR, hour, HOUR))
        _evaluate(database, promised)
        database.close()


def _evaluate(database: Database, promised: list[Promise]) -> None:
    reader, course = StandingReader(), AlertCourse()
    links, seconds, busy = Links(console_url="http://console"), [], []
    for number in range(11):
        now = _NOW + number * _EVERY
        if now % MINUTE == 0:
            _fill(database, promised, "minute_unix", range(now, now + MINUTE, MINUTE))
        began, used = time.perf_counter(), _cpu_seconds()
        with database.reading() as session:
            standings = reader.read(session, promised, now)
        course.take(alerts_of(standings, (), links, now), lambda _: True, now)
        seconds.append(time.perf_counter() - began)
        busy.append(_cpu_seconds() - used)
    print(f"{len(promised)} objectives, two tenants")
    print(f"the first evaluation, which reads all: {seconds[0]:.2f} s ({busy[0]:.2f} s of a core)")
    typical, of_core = statistics.median(seconds[1:]), statistics.mean(busy[1:])
    print(f"each of the next ten: {typical:.2f} s in the middle, {max(seconds[1:]):.2f} s at most")
    print(f"that is {100 * of_core / _EVERY:.2f} % of a core at one every {_EVERY} s")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    _main()
