"""What a client's report changes for its request: its judgement, its row, its minute's counts.

The gateway judged the request without it. At the boundary `client` that leaves out every
latency, so the report adds what the gateway could not know; the difference of the two
judgements goes into the counts, which so stay exact. At other boundaries nothing changes but
that a client has reported. Pure.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from controlplane.store.latency_buckets import bucket_of
from controlplane.store.request_rows import (
    MINUTE_SECONDS,
    CountKey,
    in_their_minutes,
    judged_measures,
    judged_minute_of,
)
from controlplane.store.request_tables import RequestRow
from controlplane.store.row_judgement import judge_row
from dataplane.contract_terms import ContractTerms
from dataplane.judgement import Judgement
from dataplane.latency import Boundary, BoundaryLatencies, client_latencies
from dataplane.record import ClientReport

CLIENT_REPORTS = "client_reports"
"""The measure that counts requests whose client reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEffect:
    """What to write because of a report."""

    counts: Counter[CountKey]
    """To add; some may be negative, as where a request turns out to have missed its contract."""
    judgement: Judgement | None = None
    """None: the contract says nothing about the client."""
    columns: dict[str, Any]
    """New values of the request's row."""


def effect_of(row: RequestRow, report: ClientReport, terms: ContractTerms | None) -> ReportEffect:
    """What `report` changes for the request of `row`, which had none before."""
    if terms is None or terms.boundary is not Boundary.CLIENT:
        return ReportEffect(counts=_counts(row, Counter({CLIENT_REPORTS: 1})), columns={})
    at_client = client_latencies(report, row.num_output_tokens)
    before, after = judge_row(row, BoundaryLatencies(), terms), judge_row(row, at_client, terms)
    changes = Counter({CLIENT_REPORTS: 1})
    changes.update(judged_measures(after))
    changes.subtract(judged_measures(before))
    if at_client.ttft is not None:
        changes[f"ttft.{bucket_of(at_client.ttft)}"] += 1
    return ReportEffect(
        counts=_counts(row, changes),
        judgement=after,
        columns={
            "in_contract": after.in_contract,
            "ttft": at_client.ttft,
            "tpot": at_client.tpot,
            "e2e": at_client.e2e,
            "first_answer": at_client.first_answer,
            "max_gap": at_client.max_gap,
        },
    )


def _counts(row: RequestRow, changes: Counter[str]) -> Counter[CountKey]:
    seconds = row.arrived_at_unix_ns // 10**9
    return in_their_minutes(
        seconds - seconds % MINUTE_SECONDS,
        judged_minute_of(row.arrived_at_unix_ns, row.last_write, row.finished),
        (
            row.deployment or "",
            row.request_class or "",
            row.tenant or "",
            row.contract_revision or "",
        ),
        changes,
    )
