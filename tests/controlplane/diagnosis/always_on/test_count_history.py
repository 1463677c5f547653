"""How requests ended, as counters that only grow; and who sends more than usual."""

from collections.abc import Mapping

from controlplane.diagnosis.always_on.count_history import CountHistory
from controlplane.diagnosis.sources.joining import join
from controlplane.store.minute_endings import EndingKey
from dataplane.engine_metrics.signal import Signal


def _counted(minutes: Mapping[int, Mapping[str, int]], tenant: str = "a") -> dict[EndingKey, int]:
    return {
        EndingKey(minute, "chat", tenant, measure): value
        for minute, measures in minutes.items()
        for measure, value in measures.items()
    }


def test_late_counts_of_a_minute_that_is_over_count_and_nothing_is_counted_twice() -> None:
    history = CountHistory()
    rejected = "disposition.rejected"
    history.take(_counted({0: {rejected: 2}}), 30.0)
    history.take(_counted({0: {rejected: 5}, 60: {rejected: 1}}), 75.0)
    history.take(_counted({60: {rejected: 4}}), 190.0)
    window = join([history.tell("chat")])
    for signal, labels in (
        (Signal.GATEWAY_REJECTED, {"reason": "rejected"}),
        (Signal.GATEWAY_ENDED, {"disposition": "rejected"}),
    ):
        series = window.find(signal, **labels)
        assert series is not None
        assert series.values == (2.0, 6.0, 9.0)
    assert join([history.tell("other")]).series == ()


def test_what_ends_so_for_the_first_time_grew_from_nothing() -> None:
    history = CountHistory()
    history.take(_counted({0: {"disposition.stop": 7}}), 30.0)
    history.take(_counted({0: {"disposition.stop": 7, "disposition.error": 3}}), 45.0)
    series = join([history.tell("chat")]).find(Signal.GATEWAY_ENDED, disposition="error")
    assert series is not None
    assert series.increase == 3.0


def _told_of_tenants(number_now: int, own: str = "b", began: int = 0) -> str | None:
    """Ten minutes in which tenant a sends 60 a minute, and then `number_now`, seen since `began`
    when what was sent before is counted already."""
    history = CountHistory()
    for now in range(began, 600, 30):
        minutes = range(max(0, now - 180) // 60 * 60, now + 1, 60)
        rates = {at: {"offered": 60 if at < 420 else number_now} for at in minutes}
        others = {at: {"offered": 20} for at in minutes}
        history.take(_counted(rates) | _counted(others, own), float(now))
        history.forget_before(now - 600.0)
    facts = {fact.key: fact.raw for fact in history.tell("chat").facts}
    return facts.get("calls_by_tenant_last_180_s")


def test_tenants_are_told_of_where_the_greatest_sends_much_more_than_before() -> None:
    assert _told_of_tenants(60) is None, "that one has most of the traffic is how it always was"
    told = _told_of_tenants(300)
    assert told is not None
    assert told.startswith("a ")
    assert _told_of_tenants(300, own="_pilothouse") is None, "a probe of ours is no caller"


def test_soon_after_a_start_what_is_usual_is_not_overrated() -> None:
    for began in (240, 300, 360):
        assert _told_of_tenants(60, began=began) is None
        told = _told_of_tenants(150, began=began)
        assert told is not None, f"two and a half times what is usual, seen since {began} s"


def test_what_nobody_has_any_more_is_forgotten() -> None:
    history = CountHistory()
    history.take(_counted({0: {"disposition.stop": 7}}), 30.0)
    history.forget_others(frozenset({"other"}))
    assert history.tell("chat").series == ()
