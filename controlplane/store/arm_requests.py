"""The requests of a rollout's two arms, as far as they are compared."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

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
_MARK_COLUMNS = (
    RequestRow.gateway_id,
    RequestRow.gateway_sequence,
    RequestRow.arrived_at_unix_ns,
    RequestRow.ttft,
    RequestRow.e2e,
    RequestRow.in_contract,
)
_COLUMNS = (
    *_MARK_COLUMNS,
    RequestRow.request_class,
    RequestRow.contract_revision,
    RequestRow.disposition,
    RequestRow.delivery,
    RequestRow.status_code,
    RequestRow.num_prompt_tokens,
    RequestRow.counted_output_tokens,
    RequestRow.is_output_unknown,
    RequestRow.first_token,
    RequestRow.first_write,
    RequestRow.last_write,
    RequestRow.first_answer,
    RequestRow.tpot,
    RequestRow.max_gap,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepScope:
    """Which requests are a step's: those that arrived in it, in either arm."""

    deployment: str
    rollout: int
    since_unix_ns: int


Marks = Mapping[int, int]
"""By what tells a row from every other, and from itself before it was changed, when it arrived
(nanoseconds since 1970)."""


def read_marks(session: Session, scope: StepScope) -> Marks:
    """Of all that ended so far, or of some of them where there are more than a look may cost."""
    return {
        _mark(row): row.arrived_at_unix_ns
        for arm in Arm
        for row in session.execute(_sampled(session, scope, arm, _MARK_COLUMNS))
    }


def read_arm_requests(
    session: Session,
    scope: StepScope,
    marks: Collection[int],
    arrived_since_unix_ns: int,
    find_terms: FindTerms,
) -> dict[int, tuple[Arm, ArmRequest]]:
    """Those of `marks`, none of which arrived before, by mark; of what changed meanwhile none.
    `find_terms`: what the contract promised that a request was judged by."""
    where = RequestRow.arrived_at_unix_ns >= arrived_since_unix_ns
    return {
        mark: (arm, _read(row, find_terms))
        for arm in Arm
        for row in session.execute(_sampled(session, scope, arm, _COLUMNS).where(where))
        if (mark := _mark(row)) in marks
    }


def _sampled(
    session: Session,
    scope: StepScope,
    arm: Arm,
    columns: Sequence[InstrumentedAttribute[Any]],
) -> Select[*tuple[Any, ...]]:
    """Of more than a look may cost, one in so many: of all times alike, since the arms of two
    different hours are not to be compared."""
    where = (
        RequestRow.deployment == scope.deployment,
        RequestRow.arrived_at_unix_ns >= scope.since_unix_ns,
        RequestRow.rollout == scope.rollout,
        RequestRow.tenant != PROBE_TENANT,
        RequestRow.arm == arm.value,
    )
    num = session.scalar(select(func.count()).select_from(RequestRow).where(*where)) or 0
    query = select(*columns).where(*where)
    if num <= MOST_REQUESTS:
        return query
    # A power of two: of more requests some of the same are read, and seldom all of them anew.
    one_in = 2 ** math.ceil(math.log2(num / MOST_REQUESTS))
    # Scattered, so that no rhythm in which requests come decides which of them are read.
    place = RequestRow.gateway_sequence % _PLACES * _SCATTER % _PLACES
    return query.where(place < _PLACES // one_in)


def _mark(row: Row[*tuple[Any, ...]]) -> int:
    """Of 64 bits. A report of its client changes how long a request took, and its judgement."""
    return hash(row[: len(_MARK_COLUMNS)])


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
