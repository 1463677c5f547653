"""How replicas would be replaced is what the operator's own plan does."""

import pytest

from controlplane.operator.desired import DesiredReplicas
from controlplane.operator.plan import ActualReplica
from controlplane.rollouts.change_plan.turnover import Turnover, turn_over
from dataplane.engine import ReplicaSpec

TEMPLATE = ReplicaSpec(
    replica_id="",
    deployment="chat",
    engine="paged",
    model_name="m",
    model_revision="m@1",
    engine_config_revision="e@1",
    artifact="/m",
)


def desired(
    number: int, *, digest: str = "new", surge: int = 0, unavailable: int = 1, problem: str = ""
) -> DesiredReplicas:
    return DesiredReplicas(
        deployment="chat",
        generation=1,
        launcher="local",
        num_replicas=number,
        template=TEMPLATE,
        digest=digest,
        max_surge=surge,
        max_unavailable=unavailable,
        problem=problem or None,
    )


def running(number: int, digest: str = "old") -> list[ActualReplica]:
    return [
        ActualReplica(
            replica_id=f"r{index}",
            deployment="chat",
            launcher="local",
            digest=digest,
            is_ready=True,
            is_draining=False,
        )
        for index in range(number)
    ]


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [
        # at a time, fewest ready, starts in a row, of them short
        (0, 1, (1, 3, 4, 4)),
        (0, 2, (2, 2, 2, 2)),
        (1, 0, (1, 4, 4, 0)),
        (4, 0, (4, 4, 1, 0)),
    ],
)
def test_replacing_four_takes_turns(
    surge: int, unavailable: int, expected: tuple[int, int, int, int]
) -> None:
    found = turn_over([desired(4, surge=surge, unavailable=unavailable)], running(4))

    assert (found.num_starts, found.num_stops, found.is_settled) == (4, 4, True)
    assert (
        found.at_a_time,
        found.least_ready,
        found.starts_until_settled,
        found.starts_while_short,
    ) == expected


def test_nothing_restarts_where_nothing_differs() -> None:
    found = turn_over([desired(2, digest="old")], running(2))

    assert (found.num_starts, found.num_stops) == (0, 0)
    assert found.is_settled


def test_fewer_are_wanted_and_nobody_is_short() -> None:
    found = turn_over([desired(1, digest="old")], running(3))

    assert (found.num_stops, found.starts_while_short, found.least_ready) == (2, 0, 1)


def test_a_new_deployment_starts_all_at_once() -> None:
    found = turn_over([desired(3)], [])

    assert (found.at_a_time, found.starts_until_settled, found.starts_while_short) == (3, 1, 0)


def test_what_cannot_be_started_says_why_and_comes_to_an_end() -> None:
    found: Turnover = turn_over([desired(2, problem="no weights")], running(2))

    assert found.held == "no weights"
    assert not found.is_settled
    assert found.num_starts == 0
