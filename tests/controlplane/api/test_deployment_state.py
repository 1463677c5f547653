"""A deployment's word is that of the worst that was looked at, and each has its figure."""

from collections.abc import Sequence

import pytest

from controlplane.api.deployment_state import DeploymentState, StateFacts, state_of
from controlplane.api.late_counts import LateCounts
from controlplane.api.late_trouble import late_troubles
from controlplane.api.trouble import HALF_HOUR_SECONDS, About, Trouble

LATE = LateCounts(window_seconds=330.0, num_asked=140, num_judged=140, num_good=138)


def state(
    late: LateCounts = LATE,
    troubles: Sequence[Trouble] = (),
    incidents: Sequence[str] = (),
    promised: float | None = 0.95,
    *,
    is_reported: bool = True,
) -> DeploymentState:
    facts = StateFacts(
        num_ready=2,
        num_desired=2,
        incidents=incidents,
        promised_share=promised,
        half_hour=LateCounts(window_seconds=1812.0, num_asked=900, num_judged=900, num_good=800),
        is_reported=is_reported,
    )
    return state_of(facts, late, [*troubles, *late_troubles("chat", late, promised)])


def trouble(severity: str, about: About | None, window_seconds: float | None = None) -> Trouble:
    return Trouble(
        severity=severity,
        what="chat is ill",
        remedy="Look.",
        deployment="chat",
        about=about,
        window_seconds=window_seconds,
    )


def figures(found: DeploymentState) -> dict[str, tuple[str, str, float | None]]:
    return {each.about: (each.severity, each.figure, each.window_seconds) for each in found.parts}


def test_ok_is_said_with_every_figure_that_it_rests_on() -> None:
    found = state()
    assert found.word == "ok"
    assert figures(found) == {
        "replicas": ("ok", "2 of 2 ready", None),
        "incidents": ("ok", "no incident is open", None),
        "rejected": ("ok", "0 of 140 rejected", 330.0),
        "failed": ("ok", "0 of 140 failed", 330.0),
        "in_contract": ("ok", "138 of 140 in contract, 95 % promised", 330.0),
    }


@pytest.mark.parametrize(
    ("late", "about", "figure"),
    [
        (
            LateCounts(num_asked=140, num_rejected=115),
            "rejected",
            "115 of 140 rejected",
        ),
        (
            LateCounts(num_asked=140, num_judged=120),
            "in_contract",
            "0 of 120 in contract, 95 % promised",
        ),
        (LateCounts(num_asked=140, num_failed=70), "failed", "70 of 140 failed"),
    ],
)
def test_ready_replicas_make_nothing_well_of_which_callers_get_nothing(
    late: LateCounts, about: str, figure: str
) -> None:
    found = state(late)
    assert found.word == "page"
    assert figures(found)[about] == ("page", figure, 300.0)
    assert figures(found)["replicas"][0] == "ok"


def test_an_open_incident_is_named() -> None:
    found = state(
        troubles=[trouble("ticket", "incidents")], incidents=["cache.thrash", "host.bound"]
    )
    assert found.word == "ticket"
    assert figures(found)["incidents"] == ("ticket", "cache.thrash and 1 more", None)


def test_what_is_none_of_its_parts_counts_too() -> None:
    found = state(troubles=[trouble("page", None)])
    assert found.word == "page"
    assert {each.severity for each in found.parts} == {"ok"}


def test_a_contract_missed_over_the_half_hour_has_the_figure_of_that() -> None:
    found = state(troubles=[trouble("ticket", "in_contract", HALF_HOUR_SECONDS)])
    assert figures(found)["in_contract"] == (
        "ticket",
        "800 of 900 in contract, 95 % promised",
        1812.0,
    )


@pytest.mark.parametrize("late", [LATE, LateCounts()])
def test_where_nobody_reports_nothing_is_ok(late: LateCounts) -> None:
    assert state(late, is_reported=False).word == "no_data"
    assert state(late, [trouble("ticket", "replicas")], is_reported=False).word == "ticket"


def test_too_few_to_tell_is_no_data_and_not_ok() -> None:
    found = state(LateCounts(num_asked=3, num_rejected=3), promised=None)
    assert found.word == "no_data"
    assert figures(found)["rejected"] == ("no_data", "3 of 3 rejected", 300.0)


def test_no_requests_are_told_as_such() -> None:
    found = state(LateCounts(), promised=None)
    assert found.word == "ok"
    assert figures(found)["requests"] == ("ok", "no requests", 300.0)
    assert "rejected" not in figures(found)
