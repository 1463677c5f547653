"""What became of the last minutes' requests wakes somebody where callers are hurt, and says nothing
of shares where too few were seen."""

from dataclasses import replace

import pytest

from controlplane.api.late_counts import LateCounts, RefusedTenant
from controlplane.api.late_trouble import late_troubles


def found(counts: LateCounts, promised: float | None = None) -> list[tuple[str | None, str]]:
    """(what about, how bad)."""
    told = late_troubles("chat", replace(counts, window_seconds=330.0), promised)
    assert all(each.deployment == "chat" for each in told)
    assert all(each.window_seconds == 330.0 for each in told)
    assert all(each.remedy for each in told)
    return [(each.about, each.severity) for each in told]


@pytest.mark.parametrize(
    ("num_rejected", "num_asked", "severities"),
    [
        (0, 0, []),
        (0, 140, []),
        (9, 100, []),
        (10, 100, ["ticket"]),
        (49, 100, ["ticket"]),
        (50, 100, ["page"]),
        (140, 140, ["page"]),
        (4, 20, []),
        (9, 10, ["no_data"]),
        (1, 1, ["no_data"]),
    ],
)
def test_most_requests_rejected_is_a_page_whether_there_is_a_contract_or_not(
    num_rejected: int, num_asked: int, severities: list[str]
) -> None:
    expected = [("rejected", severity) for severity in severities]
    assert found(LateCounts(num_rejected=num_rejected, num_asked=num_asked)) == expected


@pytest.mark.parametrize(
    ("num_failed", "num_asked", "severities"),
    [(4, 100, []), (10, 200, ["ticket"]), (20, 100, ["page"]), (2, 2, ["no_data"])],
)
def test_fewer_failures_than_refusals_are_a_page(
    num_failed: int, num_asked: int, severities: list[str]
) -> None:
    expected = [("failed", severity) for severity in severities]
    assert found(LateCounts(num_failed=num_failed, num_asked=num_asked)) == expected


@pytest.mark.parametrize(
    ("num_good", "num_judged", "promised", "severities"),
    [
        (0, 120, 0.95, ["page"]),
        (0, 120, 0.5, ["page"]),
        (33, 120, 0.95, ["page"]),
        (70, 120, 0.95, ["ticket"]),
        (118, 120, 0.95, []),
        (100, 120, 0.99, ["page"]),
        (105, 120, 0.99, ["ticket"]),
        (111, 120, 0.99, []),
        (0, 19, 0.95, []),
        (0, 120, None, []),
    ],
)
def test_a_contract_is_held_against_what_it_lets_miss(
    num_good: int, num_judged: int, promised: float | None, severities: list[str]
) -> None:
    expected = [("in_contract", severity) for severity in severities]
    counts = LateCounts(num_asked=num_judged, num_judged=num_judged, num_good=num_good)
    assert found(counts, promised) == expected


def test_the_figure_and_its_window_are_in_words_too() -> None:
    counts = LateCounts(window_seconds=330.0, num_asked=140, num_rejected=115)
    [told] = late_troubles("chat", counts, None)
    assert told.what == "chat rejected 115 of 140 requests of the last 5 min"


@pytest.mark.parametrize(
    ("num_rejected_of_others", "severity", "told_of_one"),
    [(0, "ticket", "all of them of acme"), (3, "ticket", "90 of them of acme"), (4, "page", "")],
)
def test_one_tenant_over_its_own_limits_wakes_nobody(
    num_rejected_of_others: int, severity: str, told_of_one: str
) -> None:
    counts = LateCounts(
        num_asked=140,
        num_rejected=90 + num_rejected_of_others,
        most_refused=RefusedTenant(name="acme", num_asked=100, num_rejected=90),
    )
    [told] = late_troubles("chat", counts, None)
    assert told.severity == severity
    assert ("of them of acme" in told.what) == bool(told_of_one)
    assert told.what.endswith(told_of_one)
