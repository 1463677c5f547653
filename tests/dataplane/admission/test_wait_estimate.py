import msgspec
import pytest

from dataplane.admission.load_signals import QueueLoad
from dataplane.admission.wait_estimate import (
    estimate_wait,
    explain_deadline,
    find_deadline,
    find_late_wait,
    may_be_late,
)
from dataplane.policy import ClassPolicy
from dataplane.queueing.drain_rate import DrainReading
from dataplane.routing.first_token_time import FirstTokenReading

CHAT = ClassPolicy(name="chat", first_token_seconds=4)
BATCH = ClassPolicy(name="batch", priority=-90, aging_per_second=1, deadline_seconds=60)
LOAD = QueueLoad(
    num_waiting_by_class={"chat": 5},
    num_waiting=5,
    has_free_slot=False,
    num_replicas=1,
    drain=DrainReading(requests_per_second=2, tokens_per_second=1, age_seconds=0),
)


def takes(of_this: float, usual: float = 1.0) -> QueueLoad:
    return msgspec.structs.replace(LOAD, first_token=FirstTokenReading(of_this, usual))


@pytest.mark.parametrize(
    ("request_class", "load", "deadline"),
    [
        (CHAT, LOAD, 4.0),
        (CHAT, takes(1.5), 2.5),
        (CHAT, takes(9.0), 0.2),
        (ClassPolicy(name="chat", first_token_seconds=4, deadline_seconds=2), takes(1.5), 2.0),
        (ClassPolicy(name="chat", first_token_seconds=4, deadline_seconds=2), takes(3.0), 1.0),
        (ClassPolicy(name="chat", deadline_seconds=2), takes(3.0), 2.0),
        (ClassPolicy(name="chat"), takes(3.0), None),
    ],
)
def test_who_is_promised_a_first_token_may_wait_for_what_its_prompt_leaves(
    request_class: ClassPolicy, load: QueueLoad, deadline: float | None
) -> None:
    found = find_deadline(request_class, load)
    assert found == (None if deadline is None else pytest.approx(deadline))


def test_a_long_prompt_is_late_where_a_short_one_is_not() -> None:
    assert find_late_wait([CHAT], CHAT, takes(0.5)) is None
    late = find_late_wait([CHAT], CHAT, takes(1.5))
    assert late is not None
    assert late.seconds == pytest.approx(3.0)
    assert find_late_wait([CHAT], CHAT, takes(1.5), is_other=True) is None


def test_the_promise_is_told_with_what_is_spent_of_it() -> None:
    told = explain_deadline(CHAT, takes(1.5))
    assert told == "the first token of class chat must come within 4 s, and takes 1.5 s from there"
    assert explain_deadline(CHAT, LOAD) == "the first token of class chat must come within 4 s"
    assert "takes 1 s" in explain_deadline(CHAT, takes(1.5), is_other=True)


def behind(num_batch: int, per_second: float) -> QueueLoad:
    """Ten begin in a second, and so many of them are of the class that is behind."""

    def rate(requests: float) -> DrainReading:
        return DrainReading(requests_per_second=requests, tokens_per_second=1, age_seconds=0)

    counts = {"chat": 5, "batch": num_batch}
    return msgspec.structs.replace(
        LOAD, num_waiting_by_class=counts, num_waiting=5 + num_batch, drain=rate(10),
        own_drain=rate(per_second),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_batch", "per_second", "seconds"),
    [
        (4, 10.0, 1.0),  # as fast as all: those ahead are all that counts
        (4, 0.1, 50.0),  # five at a tenth a second, since others come and go before it
        (4, 0.01, 90 + 1.0),  # no more than until it has risen by 90, and then its turn
        (99, 0.1, 90 + 10.5),
    ],
)
def test_who_is_behind_waits_as_fast_as_its_own_class_begins_or_until_it_has_risen(
    num_batch: int, per_second: float, seconds: float
) -> None:
    expected = estimate_wait([CHAT, BATCH], BATCH, behind(num_batch, per_second))
    assert expected is not None
    assert expected.seconds == pytest.approx(seconds)
    # Whoever reads the wait is told by which rate it came about.
    assert expected.own_requests_per_second == (None if per_second == 10 else per_second)


def test_who_does_not_rise_waits_for_what_others_leave() -> None:
    plain = ClassPolicy(name="batch", priority=-90, deadline_seconds=60)
    expected = estimate_wait([CHAT, plain], plain, behind(4, 0.01))
    assert expected is not None
    assert expected.seconds == pytest.approx(500)


def test_the_quick_look_passes_over_nobody_who_would_be_late() -> None:
    for num_batch in (0, 1, 4, 99):
        for per_second in (0.01, 0.1, 1.0, 10.0):
            load = behind(num_batch, per_second)
            expected = estimate_wait([CHAT, BATCH], BATCH, load)
            assert expected is not None
            assert may_be_late(BATCH, load) or expected.seconds <= 60
