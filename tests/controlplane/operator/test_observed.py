"""What is known of gateways while one process takes the place of another."""

import pytest

from controlplane.operator.observed import ObservedState
from controlplane.slo.silences import Silence, SilenceKind, SilenceScope
from dataplane.report import GatewayReport
from tests.controlplane.quiet_gateway import quiet_report

SECOND = 10**9


class Clock:
    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def observed(clock: Clock) -> ObservedState:
    return ObservedState(clock)


def report(gateway_id: str, *, started_at: int, is_draining: bool = False) -> GatewayReport:
    return quiet_report(
        gateway_id=gateway_id, started_at_unix_ns=started_at, is_draining=is_draining
    )


def shown(observed: ObservedState) -> list[tuple[str, bool]]:
    return [(each.gateway_id, each.is_draining) for each, _ in observed.gateways()]


def test_both_are_shown_while_one_drains_and_the_other_serves(
    observed: ObservedState, clock: Clock
) -> None:
    observed.put_gateway(report("a", started_at=1))
    observed.put_gateway(report("b", started_at=2))
    observed.put_gateway(report("a", started_at=1, is_draining=True))
    assert shown(observed) == [("a", True), ("b", False)]
    for _ in range(4):
        clock.now += SECOND
        observed.put_gateway(report("b", started_at=2))
    assert shown(observed) == [("b", False)]


def test_a_new_one_that_died_before_it_served_is_forgotten(
    observed: ObservedState, clock: Clock
) -> None:
    observed.put_gateway(report("a", started_at=1))
    observed.put_gateway(report("b", started_at=2))
    for _ in range(4):
        clock.now += SECOND
        observed.put_gateway(report("a", started_at=1))
    assert shown(observed) == [("a", False)]


def test_the_last_of_a_name_is_kept_however_long_it_is_silent(
    observed: ObservedState, clock: Clock
) -> None:
    observed.put_gateway(report("a", started_at=1))
    clock.now += 3600 * SECOND
    ((_, age),) = observed.gateways()
    assert age == 3600


def test_maintenance_that_was_planned_begins_and_is_over_by_itself(
    observed: ObservedState, clock: Clock
) -> None:
    begins = clock.now + 10 * SECOND
    planned = Silence(
        silence_id="9f3a61c2",
        kind=SilenceKind.MAINTENANCE,
        scope=SilenceScope(),
        reason="the switch",
        created_by="ann",
        created_at_unix_ns=clock.now,
        from_unix_ns=begins,
        until_unix_ns=begins + 10 * SECOND,
    )
    observed.set_silences([planned])
    seen = []
    for _ in range(3):
        seen.append(observed.silences() == [planned])
        clock.now += 10 * SECOND
    assert seen == [False, True, False]
