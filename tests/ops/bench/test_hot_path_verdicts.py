"""What the benches of the hot path find wrong: a refusal that lacks something, a caller without an
answer, memory that grows."""

import dataclasses
from typing import Any

import msgspec

from ops.bench.hot_path.overload_terms import REVISION
from ops.bench.hot_path.refusals import Refusals, judge
from ops.bench.hot_path.soak import Sample, add_up
from ops.bench.hot_path.stream_call import End, StreamCall


def refused(number: int = 0, code: str = "queue_full", **changes: Any) -> StreamCall:
    """As a gateway should refuse: 3 ms after the request's last byte."""
    error = {"code": code, "message": "the queue is full", "policy_revision": REVISION}
    call = StreamCall(
        number=number,
        payload=b"",
        scheduled_at=0.0,
        kind="100 chars",
        sent_at=1.0,
        body_sent_at=1.0,
        ended_at=1.003,
        status=503,
        end=End.WHOLE,
        headers={
            "x-request-id": f"r{number}",
            "x-pilothouse-policy": REVISION,
            "retry-after": "2",
        },
        body=msgspec.json.encode({"error": error}),
    )
    return dataclasses.replace(call, **changes)


def judged(*calls: StreamCall, ends: dict[str, str] | None = None) -> Refusals:
    told = {"r0": "rejected", "r1": "rejected"} if ends is None else ends
    return judge(5.0, calls, told, contract_seconds=1.0, client_behind=None)


def test_a_whole_refusal_is_sound_and_its_time_counts_from_the_last_byte_of_the_body() -> None:
    found = judged(refused())
    assert found.is_sound
    assert found.on_arrival is not None
    assert round(found.on_arrival.p99, 3) == 3.0
    assert found.reasons == {"503 queue_full": 1}


def test_a_refusal_that_lacks_something_is_told_by_what_it_lacks() -> None:
    headers = {"x-request-id": "r0", "x-pilothouse-policy": "another@1", "retry-after": "soon"}
    found = judged(refused(headers=headers), refused(1, body=b"Service Unavailable", status=500))
    assert not found.is_sound
    assert found.faults == {
        "no policy revision": 2,
        "no Retry-After": 1,
        "status 500": 1,
        "reason None": 1,
        "no message": 1,
    }


def test_who_waited_in_vain_is_no_refusal_on_arrival() -> None:
    found = judged(refused(), refused(1, code="shed"), ends={"r0": "rejected", "r1": "shed"})
    assert found.is_sound
    assert found.on_arrival is not None
    assert (found.on_arrival.num, found.num_waited_in_vain) == (1, 1)


def test_who_has_no_answer_or_no_record_is_counted() -> None:
    cut = refused(1, end=End.CUT)
    found = judged(refused(), cut, ends={})
    assert not found.is_sound
    assert (found.num_unanswered, found.num_unrecorded) == (1, 1)


def test_memory_is_flat_or_not_after_the_warm_up() -> None:
    def sample(at: float, mib: float) -> Sample:
        return Sample(
            at_seconds=at,
            resident_mib={"gateway": mib},
            num_open_files=10,
            num_in_flight=1,
            num_whole=1,
            ends={},
            chunk_delay_p99=None,
            send_delay_p99=None,
        )

    growing = [sample(10.0, 50.0), *(sample(60.0 * n, 90.0 + 3 * n) for n in range(1, 5))]
    memory = add_up(growing, "gateway", warm_up_seconds=30.0)
    assert memory is not None
    assert not memory.is_flat
    assert round(memory.slope_per_minute, 6) == 3.0
    flat = add_up([sample(60.0 * n, 90.0) for n in range(3)], "gateway", warm_up_seconds=30.0)
    assert flat is not None
    assert flat.is_flat
    assert add_up(growing[:1], "gateway", warm_up_seconds=30.0) is None
