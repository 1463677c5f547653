"""The requests of a rollout's two arms, as far as they are compared."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy.orm import Session

from controlplane.rollouts.analysis.arm_request import ArmRequest
from controlplane.store.contract_terms import FindTerms
from controlplane.store.request_tables import RequestRow
from controlplane.store.row_judgement import judge_row
from dataplane import names
from dataplane.arm import Arm
from dataplane.gateway.callers import PROBE_TENANT
from dataplane.judgement import Judgement, Verdict
from dataplane.latency import BoundaryLatencies
from dataplane.lifecycle import Disposition

MOST_REQUESTS = 25_000
"""Of each arm: as many as the smallest margins need, and no more than a look may cost."""

_PLACES = 2**31
"""Times _SCATTER still within the 64 bits that databases count in."""
_SCATTER = 1_327_217_885
"""The golden ratio of _PLACES, odd (Knuth, The Art of Computer Programming, 6.4)."""
_COLUMNS = (
    RequestRow.request_class,
    RequestRow.contract_revision,
    RequestRow.disposition,
    RequestRow.delivery,
    RequestRow.status_code,
    RequestRow.num_prompt_tokens,
    RequestRow.counted_output_tokens,
    RequestRow.is_output_unknown,
    RequestRow.in_contract,
    RequestRow.first_token,
    RequestRow.first_write,
    RequestRow.last_write,
    RequestRow.ttft,
    RequestRow.first_answer,
    RequestRow.tpot,
    RequestRow.max_gap,
    RequestRow.e2e,
)


def read_arm_requests(
    session: Session, deployment: str, rollout: int, since_unix_ns: int, find_terms: FindTerms
) -> list[tuple[Arm, ArmRequest]]:
    """Those that arrived since then and have ended, in both arms. `find_terms`: what the contract
    promised that a request was judged by."""
    where = (
        RequestRow.deployment == deployment,
        RequestRow.arrived_at_unix_ns >= since_unix_ns,
        RequestRow.rollout == rollout,
        RequestRow.tenant != PROBE_TENANT,
    )
    return [
        (arm, _read(row, find_terms))
        for arm in Arm
        for row in _rows(session, (*where, RequestRow.arm == arm.value))
    ]


def _rows(
    session: Session, where: Sequence[ColumnElement[bool]]
) -> Iterable[Row[*tuple[Any, ...]]]:
    """Of more than a look may cost, one in so many: of all times alike, since the arms of two
    different hours are not to be compared."""
    num = session.scalar(select(func.count()).select_from(RequestRow).where(*where)) or 0
    one_in = math.ceil(num / MOST_REQUESTS)
    query = select(*_COLUMNS).where(*where)
    if one_in > 1:
        # Scattered, so that no rhythm in which requests come decides which of them are read.
        place = RequestRow.gateway_sequence % _PLACES * _SCATTER % _PLACES
        query = query.where(place < _PLACES // one_in)
    return session.execute(query)


def _read(row: Row[*tuple[Any, ...]], find_terms: FindTerms) -> ArmRequest:
    return ArmRequest(
        request_class=row.request_class or "",
        disposition=Disposition(row.disposition),
        num_prompt_tokens=row.num_prompt_tokens,
        num_output_tokens=None if row.is_output_unknown else row.counted_output_tokens,
        in_contract=row.in_contract,
        ttft=row.ttft,
        tpot=row.tpot,
        contract_revision=row.contract_revision,
        objectives=_objectives(row, find_terms),
    )


def _objectives(row: Row[*tuple[Any, ...]], find_terms: FindTerms) -> dict[str, bool]:
    if row.in_contract is None:
        return {}
    terms = find_terms(row.contract_revision, row.request_class)
    if terms is None:
        return {}
    at_boundary = BoundaryLatencies(
        ttft=row.ttft,
        first_answer=row.first_answer,
        tpot=row.tpot,
        max_gap=row.max_gap,
        e2e=row.e2e,
    )
    return _kept(judge_row(row, at_boundary, terms))


def _kept(judgement: Judgement) -> dict[str, bool]:
    found = {each.signal.value: each.verdict for each in judgement.results}
    found[names.TOGETHER] = judgement.together
    return {
        name: verdict is Verdict.GOOD
        for name, verdict in found.items()
        if verdict is not Verdict.NOT_APPLICABLE
    }
