"""What a gateway reports that has nothing to do."""

from dataclasses import replace
from typing import Any

from dataplane.lifecycle import RequestCounts
from dataplane.report import GatewayReport

NOTHING = RequestCounts(
    arrived=0, invalid=0, undecided=0, rejected=0, admitted=0, active=0, finished=0
)


def quiet_report(name: str = "gateway-0", **said: Any) -> GatewayReport:
    """Of the gateway called so, but for the fields that are `said`."""
    quiet = GatewayReport(
        gateway_id=f"{name}-1",
        name=name,
        address="http://127.0.0.1:1",
        started_at_unix_ns=0,
        reported_at_unix_ns=0,
        snapshot_version=1,
        snapshot_error=None,
        counts=NOTHING,
        num_queued=0,
        oldest_queued_seconds=None,
        num_records_spooled=0,
        num_records_lost=0,
        replicas=(),
    )
    return replace(quiet, **said)
