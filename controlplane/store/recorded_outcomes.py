"""Recorded requests of one deployment, judged anew by two contracts."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from controlplane.rollouts.change_plan.contract_replay import (
    Rejudged,
    ReplayedRequest,
    ReplayedTraffic,
)
from controlplane.store.contract_terms import FindTerms
from controlplane.store.request_tables import RequestRow
from controlplane.store.row_judgement import judge_row
from dataplane import names
from dataplane.contract_terms import WITHOUT_BOUND, ContractTerms, ObjectiveSignal
from dataplane.gateway.callers import PROBE_TENANT
from dataplane.judgement import Verdict
from dataplane.latency import Boundary, BoundaryLatencies

TermsByClass = Mapping[str, ContractTerms]
_NS = 10**9
_COLUMNS = (
    RequestRow.arrived_at_unix_ns,
    RequestRow.tenant,
    RequestRow.request_class,
    RequestRow.contract_revision,
    RequestRow.disposition,
    RequestRow.delivery,
    RequestRow.status_code,
    RequestRow.first_token,
    RequestRow.first_write,
    RequestRow.last_write,
    RequestRow.finished,
    RequestRow.ttft,
    RequestRow.first_answer,
    RequestRow.tpot,
    RequestRow.max_gap,
    RequestRow.e2e,
)


def read_replayed(
    session: Session,
    deployment: str,
    contracts: tuple[TermsByClass, TermsByClass],
    find_terms: FindTerms,
    since_unix_ns: int,
    until_unix_ns: int,
    limit: int,
) -> ReplayedTraffic:
    """The newest `limit` that arrived within, by arrival. `contracts`: before and after.
    `find_terms`: of the contract that a request was judged by then, at whose boundary it was
    measured."""
    wanted = (
        RequestRow.deployment == deployment,
        RequestRow.arrived_at_unix_ns >= since_unix_ns,
        RequestRow.arrived_at_unix_ns < until_unix_ns,
        RequestRow.request_class.is_not(None),
        RequestRow.tenant.is_not(None),
        RequestRow.tenant != PROBE_TENANT,
    )
    num = session.scalar(select(func.count()).select_from(RequestRow).where(*wanted))
    rows = session.execute(
        select(*_COLUMNS)
        .where(*wanted)
        .order_by(RequestRow.arrived_at_unix_ns.desc(), RequestRow.gateway_sequence.desc())
        .limit(limit)
    ).all()
    return ReplayedTraffic(
        requests=[_replay(row, contracts, find_terms) for row in reversed(rows)],
        num_recorded=int(num or 0),
        since_unix_ns=since_unix_ns,
        until_unix_ns=until_unix_ns,
    )


def _replay(
    row: Row[*tuple[Any, ...]], contracts: tuple[TermsByClass, TermsByClass], find_terms: FindTerms
) -> ReplayedRequest:
    then = find_terms(row.contract_revision, row.request_class)
    measured_at = Boundary.SERVER if then is None else then.boundary
    before, after = (_rejudge(row, each.get(row.request_class), measured_at) for each in contracts)
    seconds = row.last_write if row.last_write is not None else row.finished
    return ReplayedRequest(
        tenant=row.tenant,
        request_class=row.request_class,
        ended_at_unix_ns=row.arrived_at_unix_ns + round((seconds or 0.0) * _NS),
        before=before,
        after=after,
    )


def _rejudge(
    row: Row[*tuple[Any, ...]], terms: ContractTerms | None, measured_at: Boundary
) -> Rejudged:
    if terms is None:
        return Rejudged(kept={}, in_contract=None)
    is_whole = terms.boundary is measured_at
    judgement = judge_row(row, _measured(row, terms.boundary, is_whole=is_whole), terms)
    unknown = frozenset() if is_whole else _untold(terms)
    kept = {each.signal.value: each.verdict for each in judgement.results}
    if not unknown:
        kept[names.TOGETHER] = judgement.together
    return Rejudged(
        kept={
            name: verdict is Verdict.GOOD
            for name, verdict in kept.items()
            if name not in unknown and verdict is not Verdict.NOT_APPLICABLE
        },
        in_contract=None if unknown else judgement.in_contract,
        unknown=unknown,
    )


def _measured(
    row: Row[*tuple[Any, ...]], boundary: Boundary, *, is_whole: bool
) -> BoundaryLatencies:
    """At the boundary; of another one than it was measured at, only its first token is kept."""
    if is_whole:
        return BoundaryLatencies(
            ttft=row.ttft,
            first_answer=row.first_answer,
            tpot=row.tpot,
            max_gap=row.max_gap,
            e2e=row.e2e,
        )
    first = {Boundary.ENGINE: row.first_token, Boundary.SERVER: row.first_write}
    return BoundaryLatencies(ttft=first.get(boundary))


def _untold(terms: ContractTerms) -> frozenset[str]:
    """Objectives that were not measured at the boundary of `terms`."""
    told = set(WITHOUT_BOUND)
    if terms.boundary is not Boundary.CLIENT:
        told.add(ObjectiveSignal.TTFT)
    untold = {each.signal.value for each in terms.objectives if each.signal not in told}
    return frozenset({*untold, names.TOGETHER} if untold else untold)
