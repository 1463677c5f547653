"""What a request's compact row says of its contract. Pure."""

from typing import Protocol

from dataplane.contract_terms import ContractTerms
from dataplane.judgement import Judgement, judge
from dataplane.latency import Boundary, BoundaryLatencies, Latencies
from dataplane.lifecycle import Delivery, Disposition
from dataplane.outcome import outcome_of


class JudgedColumns(Protocol):
    """Columns of a request's row that are judged, by the names that they have there."""

    @property
    def disposition(self) -> str: ...
    @property
    def delivery(self) -> str: ...
    @property
    def status_code(self) -> int | None: ...
    @property
    def first_token(self) -> float | None: ...
    @property
    def first_write(self) -> float | None: ...
    @property
    def last_write(self) -> float | None: ...


def judge_row(
    row: JudgedColumns, at_boundary: BoundaryLatencies, terms: ContractTerms
) -> Judgement:
    """`at_boundary`: what was measured at the boundary of `terms`, seconds."""
    outcome = outcome_of(Disposition(row.disposition), Delivery(row.delivery), row.status_code)
    measured = {
        Boundary.ENGINE: BoundaryLatencies(ttft=row.first_token),
        Boundary.SERVER: BoundaryLatencies(ttft=row.first_write),
        Boundary.CLIENT: BoundaryLatencies(),
    } | {terms.boundary: at_boundary}
    latencies = Latencies(
        engine=measured[Boundary.ENGINE],
        server=measured[Boundary.SERVER],
        client=measured[Boundary.CLIENT],
    )
    # Without a last write the gateway died, and then the service failed it however long it took.
    return judge(latencies, outcome, terms, elapsed=row.last_write or 0.0)
