"""How fast the request store answers over a million compact rows in SQLite.

    .venv/bin/python ops/bench/bench_request_store.py --rows 1000000

Fills a database with made-up requests over one day, then times a list page (plain, by each
filter, and deep), a look-up by id, the figures of the overview, and taking in a batch of
2,000. Prints the median and the worst of several rounds, in milliseconds.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import insert

from controlplane.store.database import (
    Database,
    DatabaseKind,
    create_or_open_database,
    sqlite_url,
)
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.request_rows import compact_row
from controlplane.store.request_tables import RequestRow
from controlplane.store.requests import (
    PageKey,
    RequestFilter,
    find_requests,
    list_requests,
    ttft_quantile,
)
from ops.sample_requests import traffic

_DAY_NS = 86400 * 10**9
_CHUNK = 20_000


def fill(database: Database, num_rows: int, now_unix_ns: int) -> None:
    """Spread `num_rows` rows over one day; ids differ, the rest repeats."""
    models = [compact_row(record) for record in traffic(997, now_unix_ns)]
    random = Random(1)
    for start in range(0, num_rows, _CHUNK):
        rows = [
            {
                **models[number % len(models)],
                "gateway_id": "bench",
                "gateway_sequence": number,
                "request_id": f"{random.getrandbits(128):032x}",
                "trace_id": f"{random.getrandbits(128):032x}",
                "arrived_at_unix_ns": now_unix_ns - _DAY_NS + number * _DAY_NS // num_rows,
            }
            for number in range(start, min(start + _CHUNK, num_rows))
        ]
        with database.session() as session:
            session.execute(insert(RequestRow), rows)


def measure(name: str, rounds: int, work: Callable[[], Any]) -> None:
    """Time `work` and print it."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - started))
    print(f"{name:34} median {statistics.median(taken):9.1f} ms   worst {max(taken):9.1f} ms")


def read(database: Database, work: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """`work` in a session of its own."""

    def in_session() -> Any:
        with database.reading() as session:
            return work(session, *arguments)

    return in_session


def main() -> None:
    """Fill and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    now = time.time_ns()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "requests.db"
        database = create_or_open_database(sqlite_url(path), DatabaseKind.REQUESTS)
        started = time.perf_counter()
        fill(database, arguments.rows, now)
        seconds = time.perf_counter() - started
        print(f"{arguments.rows:,} rows in {seconds:.0f} s, {path.stat().st_size / 2**20:.0f} MiB")
        deep = PageKey(
            arrived_at_unix_ns=now - _DAY_NS // 2, gateway_sequence=0, gateway_id="bench"
        )
        cases = {
            "list, newest 50": RequestFilter(),
            "list, deployment remote": RequestFilter(deployment="remote"),
            "list, class batch": RequestFilter(request_class="batch"),
            "list, disposition error": RequestFilter(disposition="error"),
            "list, out of contract": RequestFilter(in_contract=False),
            "list, tenant that is not there": RequestFilter(tenant="nobody"),
            "list, nobody, last hour": RequestFilter(
                tenant="nobody", since_unix_ns=now - 3600 * 10**9
            ),
        }
        for name, wanted in cases.items():
            measure(name, arguments.rounds, read(database, list_requests, wanted, 50))
        measure(
            "list, half a day deep",
            arguments.rounds,
            read(database, list_requests, RequestFilter(), 50, deep),
        )
        measure("find by id, unknown", arguments.rounds, read(database, find_requests, "zzzz"))
        since = now - 1800 * 10**9
        measure(
            "TTFT p95 of 30 min",
            arguments.rounds,
            read(database, ttft_quantile, "chat", since, 0.95),
        )
        records = [replace(r, gateway_id="late") for r in traffic(2000, now)]
        batch = RecordBatch(gateway_id="late", num_lost=0, records=tuple(records))

        def take() -> None:
            with database.session() as session:
                store_batch(session, batch, Random(1), ReservoirSizes())

        measure("store 2,000 records", 1, take)
        database.close()


if __name__ == "__main__":
    main()
