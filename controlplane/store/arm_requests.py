"""The requests of a rollout's two arms, as far as they are compared."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.rollouts.analysis.arm_request import ArmRequest
from controlplane.store.request_tables import RequestRow
from dataplane.arm import Arm
from dataplane.gateway.callers import PROBE_TENANT
from dataplane.lifecycle import Disposition

MOST_REQUESTS = 200_000
"""The newest: beyond that more would tell nothing that these do not."""

_COLUMNS = (
    RequestRow.arm,
    RequestRow.request_class,
    RequestRow.disposition,
    RequestRow.num_prompt_tokens,
    RequestRow.counted_output_tokens,
    RequestRow.is_output_unknown,
    RequestRow.in_contract,
    RequestRow.ttft,
    RequestRow.tpot,
)


def read_arm_requests(
    session: Session, deployment: str, rollout: int, since_unix_ns: int
) -> list[tuple[Arm, ArmRequest]]:
    """Those that arrived since then and have ended, in both arms."""
    query = (
        select(*_COLUMNS)
        .where(
            RequestRow.deployment == deployment,
            RequestRow.arrived_at_unix_ns >= since_unix_ns,
            RequestRow.rollout == rollout,
            RequestRow.tenant != PROBE_TENANT,
        )
        .order_by(RequestRow.arrived_at_unix_ns.desc())
        .limit(MOST_REQUESTS)
    )
    return [
        (
            Arm(row.arm),
            ArmRequest(
                request_class=row.request_class or "",
                disposition=Disposition(row.disposition),
                num_prompt_tokens=row.num_prompt_tokens,
                num_output_tokens=None if row.is_output_unknown else row.counted_output_tokens,
                in_contract=row.in_contract,
                ttft=row.ttft,
                tpot=row.tpot,
            ),
        )
        for row in session.execute(query)
    ]
