"""An attached endpoint that no gateway reaches is said to be unreachable, and when it is back."""

from controlplane.operator.reach import Reach
from controlplane.operator.settings import OperatorSettings
from dataplane.report import GatewayReport, ReplicaReport
from tests.controlplane.operator.test_vigil import Time
from tests.controlplane.quiet_gateway import quiet_report

HANGS = "GET /health: no whole answer within 5 s"


def report(name: str, error: str | None, age_seconds: float = 0.1) -> tuple[GatewayReport, float]:
    replica = ReplicaReport(
        replica_id="far-1", is_connected=error is None, num_outstanding=0, error=error
    )
    return quiet_report(name, replicas=(replica,)), age_seconds


def test_what_no_gateway_reaches_for_a_while_is_unreachable_until_one_does() -> None:
    time = Time()
    reach = Reach(OperatorSettings(unreached_seconds=5), time)
    reach.read_reports([report("g0", HANGS)])
    assert reach.why_unreachable("far-1") is None, "it may have been a moment"
    time.now += 6
    reach.read_reports([report("g0", HANGS)])
    assert reach.why_unreachable("far-1") == f"no gateway reaches it: {HANGS}"
    reach.read_reports([report("g0", HANGS), report("g1", None)])
    assert reach.why_unreachable("far-1") is None


def test_an_old_report_says_nothing_either_way() -> None:
    time = Time()
    reach = Reach(OperatorSettings(unreached_seconds=5, fresh_report_seconds=5), time)
    reach.read_reports([report("g0", HANGS, age_seconds=60)])
    time.now += 60
    reach.read_reports([report("g0", HANGS, age_seconds=120)])
    assert not reach.is_told("far-1")
    assert reach.why_unreachable("far-1") is None
