"""The arithmetic of burn rates against vectors that were worked out by hand."""

import functools
from decimal import Decimal

import pytest

from controlplane.slo.alert_windows import BURN_WINDOWS, DAY, HOUR, MINUTE, GradeName, grades_of
from controlplane.slo.alerting import AlertTerms, firing, thresholds
from controlplane.slo.burn_rate import burn_rate, percent, seconds_to_exhaustion
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.promised import promises_of
from controlplane.slo.standing import Standing, standing_of
from controlplane.slo.state import SLOState
from tests.controlplane.slo.prometheus.promtool import contract
from tests.controlplane.slo.recorded_counts import CountSlot, RecordedCounts

PERIOD = 30 * DAY
_PER_SECOND = 100


def _names(counts: RecordedCounts, target: float, now: float) -> list[str]:
    over = functools.partial(counts.over, end_unix=now)
    return [each.threshold.grade.name for each in firing(over, target, PERIOD)]


def _outage(start: float, end: float, until: float) -> RecordedCounts:
    """Steady traffic since four days before 0, of which all is bad from `start` to `end`."""
    return RecordedCounts(
        1,
        [
            CountSlot(
                start_unix=second,
                counts=EventCounts(
                    good=0 if start <= second < end else _PER_SECOND, total=_PER_SECOND
                ),
            )
            for second in range(-4 * DAY, int(until))
        ],
    )


def _steady(error_per_thousand: int, seconds: int) -> RecordedCounts:
    return RecordedCounts(
        MINUTE,
        [
            CountSlot(
                start_unix=start,
                counts=EventCounts(good=1000 - error_per_thousand, total=1000),
            )
            for start in range(0, seconds, MINUTE)
        ],
    )


def _fire(bad: int, total: int, target: float) -> set[GradeName]:
    """Where so many of so many are bad in every window."""
    counts = EventCounts(good=total - bad, total=total)
    return {each.threshold.grade.name for each in firing(lambda _: counts, target, PERIOD)}


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99, 0.995, 0.999, 0.9999])
def test_a_burn_of_exactly_the_factor_does_not_fire_and_one_request_more_does(
    target: float,
) -> None:
    total = 10**9
    for each in thresholds(target, PERIOD):
        if each.why_left_out is None:
            bad = int(each.error_ratio * total)
            assert bad == each.error_ratio * total
            assert each.grade.name not in _fire(bad, total, target)
            assert each.grade.name in _fire(bad + 1, total, target)


def test_t1_a_total_outage_pages_after_52_seconds_and_clears_4_minutes_56_after_recovery() -> None:
    recovered = 10 * MINUTE
    counts = _outage(0, recovered, recovered + 6 * MINUTE)
    first = next(s for s in range(1, recovered) if "page_quick" in _names(counts, 0.999, s))
    assert first == 52
    cleared = next(
        s
        for s in range(recovered, recovered + 6 * MINUTE)
        if "page_quick" not in _names(counts, 0.999, s)
    )
    assert cleared - recovered == 4 * MINUTE + 56


def test_t2_a_burn_of_six_pages_slowly_and_not_quickly() -> None:
    now = 6 * HOUR
    names = _names(_steady(61, now), 0.99, now)
    assert names == ["page_slow", "ticket_quick", "ticket_slow"]


def test_t3_a_burn_of_two_is_a_slow_ticket_alone_and_lasts_half_the_period() -> None:
    now = 4 * DAY
    counts = _steady(20, now)
    assert _names(counts, 0.99, now) == ["ticket_slow"]
    burn = burn_rate(counts.over(3 * DAY, now), 0.99)
    assert burn == pytest.approx(2)
    assert seconds_to_exhaustion(2, PERIOD) == 15 * DAY


def test_t4_at_90_percent_no_quick_page_can_fire_and_a_slow_one_can() -> None:
    by_name = {each.grade.name.value: each for each in thresholds(0.9, PERIOD)}
    assert by_name["page_quick"].error_ratio == Decimal("1.44")
    assert by_name["page_quick"].why_left_out is not None
    assert by_name["page_slow"].error_ratio == Decimal("0.6")
    assert by_name["page_slow"].why_left_out is None
    everything_bad = RecordedCounts(
        MINUTE, [CountSlot(start_unix=0, counts=EventCounts(good=0, total=100))]
    )
    assert "page_quick" not in _names(everything_bad, 0.9, MINUTE)


def test_t5_windows_are_sums_of_counts_and_no_means_of_ratios() -> None:
    quiet = [EventCounts(good=3, total=3)] * 275 + [EventCounts(good=2, total=3)]
    busy = [EventCounts(good=30_000, total=30_000)] * 12
    together = sum([*quiet, *busy], start=NO_EVENTS)
    assert (together.bad, together.total) == (1, 360_828)
    mean_of_ratios = sum(each.error_ratio or 0 for each in [*quiet, *busy]) / 288
    assert mean_of_ratios == pytest.approx(1 / 864)
    assert together.error_ratio == 1 / 360_828
    assert round(mean_of_ratios / (together.error_ratio or 0)) == 418
    slots = RecordedCounts(
        5 * MINUTE,
        [
            CountSlot(start_unix=number * 5 * MINUTE, counts=each)
            for number, each in enumerate([*quiet, *busy])
        ],
    )
    assert slots.over(DAY, 288 * 5 * MINUTE) == together


@pytest.mark.parametrize(
    ("name", "factor", "at_999", "at_99"),
    [
        ("page_quick", 14.4, 0.0144, 0.144),
        ("page_slow", 6, 0.006, 0.06),
        ("ticket_quick", 3, 0.003, 0.03),
        ("ticket_slow", 1, 0.001, 0.01),
    ],
)
def test_factors_of_thirty_days_are_those_of_the_workbook(
    name: str, factor: float, at_999: float, at_99: float
) -> None:
    strict = {each.grade.name.value: each for each in thresholds(0.999, PERIOD)}[name]
    loose = {each.grade.name.value: each for each in thresholds(0.99, PERIOD)}[name]
    assert float(strict.factor) == factor
    assert str(float(strict.error_ratio)) == str(at_999)  # shortest form, no artefact of floats
    assert float(loose.error_ratio) == at_99
    assert strict.grade.long_seconds == 12 * strict.grade.short_seconds


def test_factors_of_a_week_are_those_of_its_own_shares() -> None:
    factors = [float(grade.factor(7 * DAY)) for grade in grades_of(7 * DAY)]
    assert factors == [13.44, 3.5, 1.4, 1]  # at 0.98 the budget is never spent


@pytest.mark.parametrize("days", [1, 3, 7, 14, 21, 28, 30, 90])
def test_no_alert_fires_of_a_burn_that_never_spends_the_budget(days: int) -> None:
    kept = [each for each in thresholds(0.999, days * DAY) if each.why_left_out is None]
    assert all(each.factor >= 1 for each in kept)
    assert all(each.grade.long_seconds <= days * DAY for each in kept)
    assert kept[0].grade.name == "page_quick"


def _standing(counts: EventCounts, *, is_seen: bool) -> Standing:
    """`counts` in every window, of a promise of 99.9 %."""
    spec = contract([{"signal": "availability", "for": "99.9%"}])
    [promise] = promises_of("chat", "chat@7", spec)
    return standing_of(promise, dict.fromkeys(BURN_WINDOWS, counts), counts, is_seen=is_seen)


def test_t7_silence_of_a_service_that_is_there_is_too_little_data_and_pages_nobody() -> None:
    standing = _standing(NO_EVENTS, is_seen=True)
    assert standing.state is SLOState.INSUFFICIENT_DATA
    assert standing.firing == ()
    assert standing.burn(HOUR) is None


def test_t8_a_service_that_nobody_can_see_has_no_data_and_burns_nothing() -> None:
    outage = EventCounts(good=0, total=1000)
    assert [each.threshold.grade.name for each in _standing(outage, is_seen=True).firing] == list(
        GradeName
    )
    unseen = _standing(outage, is_seen=False)
    assert unseen.state is SLOState.NO_DATA
    assert unseen.firing == ()


def test_one_failure_of_a_few_requests_fires_nothing() -> None:
    few = RecordedCounts(MINUTE, [CountSlot(start_unix=0, counts=EventCounts(good=8, total=9))])
    assert _names(few, 0.999, MINUTE) == []
    more = RecordedCounts(MINUTE, [CountSlot(start_unix=0, counts=EventCounts(good=9, total=10))])
    assert "page_quick" in _names(more, 0.999, MINUTE)


def test_a_contract_says_how_many_requests_are_enough_and_which_grades_it_wants() -> None:
    found = RecordedCounts(MINUTE, [CountSlot(start_unix=0, counts=EventCounts(good=0, total=12))])
    over = functools.partial(found.over, end_unix=MINUTE)

    def fired(terms: AlertTerms) -> list[str]:
        return [each.threshold.grade.name for each in firing(over, 0.99, PERIOD, terms)]

    assert fired(AlertTerms(min_events=13)) == []
    assert fired(AlertTerms(min_events=12)) == list(GradeName)
    off = frozenset({GradeName.PAGE_QUICK, GradeName.TICKET_SLOW})
    assert fired(AlertTerms(off=off)) == ["page_slow", "ticket_quick"]


def test_more_good_than_all_is_refused() -> None:
    with pytest.raises(ValueError, match="5 good of 4"):
        EventCounts(good=5, total=4)


def test_a_target_is_shown_as_it_was_promised() -> None:
    assert [percent(target) for target in (0.975, 0.985, 0.9999, 0.95)] == [
        "97.5 %", "98.5 %", "99.99 %", "95 %",
    ]  # fmt: skip
