"""What a waterfall says of the client."""

from dataclasses import replace

import msgspec

from controlplane.api.life import life_of_record
from dataplane.lifecycle import AnswerPart, EventKind
from ops.sample_requests import Sample, answered

RECORD = answered(Sample(sequence=0, arrived_at_unix_ns=10**18))


def note(first: float, rest: float) -> str:
    """Of the delivery of a request whose client let us wait so long for the first write and for
    the one in the middle."""
    writes = [event for event in RECORD.events if event.kind is EventKind.WRITE]
    middle = writes[len(writes) // 2]
    events = []
    for event in RECORD.events:
        if event.kind is EventKind.FIRST_WRITE:
            event = msgspec.structs.replace(event, waited_seconds=first)
        elif event is middle:
            event = msgspec.structs.replace(event, waited_seconds=rest)
        events.append(event)
    life = life_of_record(replace(RECORD, events=tuple(events), client=None))
    [delivery] = [phase for phase in life.phases if phase.name == "delivery"]
    return delivery.note


def test_a_client_that_reads_at_once_is_not_mentioned() -> None:
    assert note(0.0, 0.0) == "complete"


def test_the_wait_for_the_first_fragment_is_told_apart_since_delivery_had_not_begun() -> None:
    assert note(0.02, 0.0) == "complete, client took 20.0 ms to accept the first fragment"


def test_the_first_of_the_answer_after_reasoning_is_marked() -> None:
    *_, last = (event for event in RECORD.events if event.kind is EventKind.TOKENS)
    begins = msgspec.structs.replace(last, begins=AnswerPart.ANSWER)
    events = tuple(begins if event is last else event for event in RECORD.events)
    life = life_of_record(replace(RECORD, events=events))
    [decode] = [phase for phase in life.phases if phase.name == "decode"]
    told = [mark.at_seconds for mark in decode.marks if mark.text.endswith("first of its answer")]
    assert told == [last.at]


def test_a_wait_during_the_delivery_is_never_longer_than_the_delivery() -> None:
    assert note(0.0, 0.01) == "complete, client made us wait 10.0 ms"
    *_, said = note(0.0, 1e6).split(", client made us wait ")
    delivery = RECORD.events[-1].at  # longer than the delivery itself
    assert float(said.removesuffix(" ms")) / 1000 <= delivery
