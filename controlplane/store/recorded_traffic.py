"""Recorded requests of one deployment, as far as policies decide about them."""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.rollouts.change_plan.recorded import RecordedRequest, RecordedTraffic
from controlplane.store.request_tables import RequestRow


def read_recorded_traffic(
    session: Session, deployment: str, since_unix_ns: int, until_unix_ns: int, limit: int
) -> RecordedTraffic:
    """The newest `limit` of a time that a class was decided for, by arrival, and how many there
    were."""
    wanted = (
        RequestRow.deployment == deployment,
        RequestRow.arrived_at_unix_ns >= since_unix_ns,
        RequestRow.arrived_at_unix_ns < until_unix_ns,
        RequestRow.request_class.is_not(None),
        RequestRow.tenant.is_not(None),
    )
    number = session.scalar(select(func.count()).select_from(RequestRow).where(*wanted))
    rows = session.execute(
        select(
            RequestRow.gateway_id,
            RequestRow.arrived_at_unix_ns,
            RequestRow.tenant,
            RequestRow.request_class,
            RequestRow.policy_revision,
            RequestRow.model_revision,
            RequestRow.num_prompt_tokens,
            RequestRow.counted_output_tokens,
            RequestRow.is_output_unknown,
            RequestRow.scheduled,
            RequestRow.released,
            RequestRow.last_write,
            RequestRow.finished,
        )
        .where(*wanted)
        .order_by(RequestRow.arrived_at_unix_ns.desc(), RequestRow.gateway_sequence.desc())
        .limit(limit)
    ).all()
    return RecordedTraffic(
        requests=[_read(row) for row in reversed(rows)],
        num_recorded=int(number or 0),
        since_unix_ns=since_unix_ns,
        until_unix_ns=until_unix_ns,
    )


def _read(row: Any) -> RecordedRequest:
    ends = (row.released, row.last_write, row.finished)
    return RecordedRequest(
        gateway_id=row.gateway_id,
        arrived_at_unix_ns=row.arrived_at_unix_ns,
        tenant=row.tenant,
        request_class=row.request_class,
        policy_revision=row.policy_revision,
        model_name=None if row.model_revision is None else row.model_revision.rpartition("@")[0],
        num_prompt_tokens=row.num_prompt_tokens,
        num_output_tokens=None if row.is_output_unknown else row.counted_output_tokens,
        scheduled=row.scheduled,
        ended=next((each for each in ends if each is not None), None),
    )
