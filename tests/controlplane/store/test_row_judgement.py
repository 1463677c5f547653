"""A compact row judged again says what its gateway said."""

from collections import Counter
from random import Random

from sqlalchemy import select

from controlplane.store.connection import DatabaseKind
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.request_tables import RequestRow
from controlplane.store.row_judgement import judge_row
from dataplane.judgement import Judgement
from dataplane.latency import BoundaryLatencies
from ops.sample_requests import CHAT_TERMS, traffic
from tests.databases import Databases


def test_every_kind_of_request_is_judged_as_it_was(databases: Databases) -> None:
    records = {each.request_id: each for each in traffic(400, 1_790_000_000 * 10**9)}
    database = databases.open(DatabaseKind.REQUESTS)
    batch = RecordBatch(gateway_id="g", num_lost=0, records=tuple(records.values()))
    with database.session() as session:
        store_batch(session, batch, Random(1), ReservoirSizes())
    seen: Counter[bool | None] = Counter()
    with database.reading() as session:
        for row in session.scalars(select(RequestRow)):
            told = records[row.request_id].judgement
            if told is None:
                continue
            at_boundary = BoundaryLatencies(
                ttft=row.ttft,
                first_answer=row.first_answer,
                tpot=row.tpot,
                max_gap=row.max_gap,
                e2e=row.e2e,
            )
            again = judge_row(row, at_boundary, CHAT_TERMS)
            assert _verdicts(again) == _verdicts(told), row.request_id
            seen[again.in_contract] += 1
    database.close()
    assert min(seen[True], seen[False]) > 5


def _verdicts(judgement: Judgement) -> tuple[object, ...]:
    results = {each.signal: each.verdict for each in judgement.results}
    return judgement.in_contract, judgement.together, results
