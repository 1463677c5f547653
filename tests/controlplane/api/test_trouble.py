"""What is wrong right now, and how badly."""

import pytest

from controlplane.api.trouble import DeploymentFacts, Trouble, find_trouble


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
