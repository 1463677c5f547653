"""What is wrong right now, and how badly."""

import pytest

from controlplane.api.trouble import DeploymentFacts, GatewayFacts, Trouble, find_trouble


def _trouble(
    num_ready: int,
    num_desired: int = 1,
    failed_because: str | None = None,
    starting_stage: str | None = None,
) -> Trouble:
    facts = DeploymentFacts(
        name="chat",
        num_desired=num_desired,
        num_ready=num_ready,
        failed_because=failed_because,
        starting_stage=starting_stage,
    )
    return find_trouble([facts], [])[0]


@pytest.mark.parametrize(
    ("num_ready", "failed_because", "starting_stage", "severity"),
    [
        (0, "killed by SIGKILL", None, "page"),
        (0, "killed by SIGKILL", "load", "page"),
        (0, None, None, "page"),
        (0, None, "load", "ticket"),
        (1, "killed by SIGKILL", None, "ticket"),
        (1, "killed by SIGKILL", "load", "ticket"),
        (1, None, "load", "ticket"),
    ],
)
def test_somebody_is_woken_when_nobody_is_served_and_nobody_asked_for_that(
    num_ready: int, failed_because: str | None, starting_stage: str | None, severity: str
) -> None:
    found = _trouble(num_ready, 2, failed_because, starting_stage)
    assert found.severity == severity


def test_a_successor_that_starts_is_told_beside_the_failure_it_follows() -> None:
    found = _trouble(0, failed_because="killed by SIGKILL", starting_stage="load")
    assert found.what == (
        "chat cannot answer: 0 of 1 replicas ready; the last one failed: killed by SIGKILL; "
        "one is starting (stage load)"
    )
    assert "describe deployment chat" in found.remedy


@pytest.mark.parametrize(
    ("is_current", "refused_because", "told"),
    [
        (True, None, []),
        (True, "its key was revoked", []),
        (False, None, [("no_data", "gateway-0 has not reported for 12 s")]),
        (
            False,
            "its key was revoked",
            [("ticket", "gateway-0 runs and is refused: its key was revoked")],
        ),
    ],
)
def test_a_gateway_that_is_refused_is_told_from_one_that_is_silent(
    is_current: bool, refused_because: str | None, told: list[tuple[str, str]]
) -> None:
    facts = GatewayFacts(
        name="gateway-0",
        age_seconds=12,
        is_current=is_current,
        snapshot_error=None,
        num_records_lost=0,
        refused_because=refused_because,
    )
    found = find_trouble([], [facts])
    assert [each.severity for each in found] == [severity for severity, _ in told]
    assert all(each.what.startswith(what) for each, (_, what) in zip(found, told, strict=True))
