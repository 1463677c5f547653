"""Who waits where."""

from typing import Any

from controlplane.api.live import LiveRequest
from controlplane.console.waiting_lines import waiting_lines


def request(number: int, **said: Any) -> LiveRequest:
    given: dict[str, Any] = {
        "state": "queued",
        "age_seconds": 1.0,
        "waits_for": "a slot",
        "queue_position": number,
        "deployment": "chat",
        "request_class": "interactive",
        "tenant": "acme",
        "num_prompt_tokens": 100,
        "queue_age_seconds": float(number),
    }
    return LiveRequest(request_id=f"r{number}", trace_id=f"t{number}", **(given | said))


def test_those_that_wait_for_the_same_are_one_line_with_its_oldest_and_its_tokens() -> None:
    (line,) = waiting_lines([request(1), request(4, tenant="globex"), request(2)])
    assert (line.num_waiting, line.num_tenants) == (3, 2)
    assert (line.oldest_seconds, line.num_prompt_tokens) == (4.0, 300)


def test_the_longest_wait_comes_first_and_who_does_not_wait_in_no_line() -> None:
    lines = waiting_lines(
        [
            request(1),
            request(2, request_class="batch", queue_age_seconds=90.0),
            request(3, waits_for="a replica to be reached", queue_age_seconds=5.0),
            request(4, queue_position=None, state="decode"),
        ]
    )
    told = [(line.request_class, line.waits_for, line.num_waiting) for line in lines]
    assert told == [
        ("batch", "a slot", 1),
        ("interactive", "a replica to be reached", 1),
        ("interactive", "a slot", 1),
    ]


def test_what_a_gateway_does_not_say_is_unknown_and_never_zero() -> None:
    (line,) = waiting_lines([request(1, queue_age_seconds=None, num_prompt_tokens=None)])
    assert (line.oldest_seconds, line.num_prompt_tokens) == (None, None)
