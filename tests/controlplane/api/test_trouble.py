"""What is wrong right now, and how badly."""

from dataclasses import replace

import pytest

from controlplane.api.trouble import (
    ENOUGH_JUDGED,
    DeploymentFacts,
    GatewayFacts,
    Trouble,
    find_trouble,
)


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


def _judged(num_good: int, num_judged: int, num_asked: int) -> list[Trouble]:
    kept = num_good / num_judged if num_judged >= ENOUGH_JUDGED else None
    facts = DeploymentFacts(
        name="chat",
        num_desired=1,
        num_ready=1,
        failed_because=None,
        starting_stage=None,
        kept_share=kept,
        promised_share=0.95,
        num_asked=num_asked,
        num_judged=num_judged,
        num_good=num_good,
    )
    return [each for each in find_trouble([facts], []) if each.deployment == "chat"]


@pytest.mark.parametrize("num_judged", range(1, ENOUGH_JUDGED))
@pytest.mark.parametrize("num_good", [0, 1])
def test_a_small_sample_that_looks_bad_is_neither_well_nor_a_miss(
    num_good: int, num_judged: int
) -> None:
    found = _judged(num_good, num_judged, num_asked=max(16, num_judged))
    assert [each.severity for each in found] == ["no_data"]
    assert f"{num_judged} judged: too few to tell" in found[0].what


@pytest.mark.parametrize(
    ("num_good", "num_judged", "num_asked", "severities"),
    [
        (0, 0, 0, []),
        (0, 0, 9, []),
        (16, 16, 16, []),
        (9, 9, 10, []),
        (19, 20, 20, []),
        (1, 20, 20, ["ticket"]),
        (20, 20, 400, ["no_data"]),
        (380, 380, 400, []),
    ],
)
def test_what_is_judged_enough_is_a_miss_or_well(
    num_good: int, num_judged: int, num_asked: int, severities: list[str]
) -> None:
    found = _judged(num_good, num_judged, num_asked)
    assert [each.severity for each in found] == severities


def test_an_attached_engine_that_is_lost_is_told_with_its_time_and_was_seen() -> None:
    facts = DeploymentFacts(
        name="chat",
        num_desired=1,
        num_ready=0,
        failed_because=None,
        starting_stage=None,
        lost_because="it does not answer: its port refuses connections",
        lost_at_unix_ns=1_790_000_000 * 10**9,
    )
    (found, _) = find_trouble([facts], [])
    assert found.severity == "page"
    assert found.what == (
        "chat cannot answer: 0 of 1 replicas ready; one that was ready is unreachable since "
        "2026-09-21 14:13:20 UTC: it does not answer: its port refuses connections"
    )
    (observed, _) = find_trouble([replace(facts, is_observed_only=True)], [])
    assert observed.what.startswith("chat, which is observed, is lost: 0 of 1 replicas ready")
