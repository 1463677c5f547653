"""A record on the wire."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import judge
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind, Observability
from dataplane.outcome import Outcome
from dataplane.record import RecordedContent, decode_record, encode_record, record_to_dict
from tests.dataplane.golden_request import CLIENT, golden_record

_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=(Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3),),
)


def test_a_record_comes_back_from_the_wire_as_it_was() -> None:
    plain = golden_record(CLIENT)
    judgement = judge(plain.latencies, Outcome.ANSWERED, _TERMS, 0.1)
    record = golden_record(
        CLIENT, judgement=judgement, content=RecordedContent(prompt="p\n", output="ö")
    )
    line = encode_record(record)
    assert b"\n" not in line, "a record is one line of a file"
    assert decode_record(line) == record


def test_a_record_of_a_gateway_of_before_is_read_and_what_it_could_not_tell_is_unknown() -> None:
    told = json.loads(encode_record(golden_record(CLIENT)))
    for boundary in ("engine", "server", "client"):
        del told["latencies"][boundary]["first_answer"]
    del told["client"]["first_answer"]
    record = decode_record(json.dumps(told).encode())
    assert {record.latencies.at(boundary).first_answer for boundary in Boundary} == {None}
    assert record.latencies.server.ttft == golden_record().latencies.server.ttft
    assert {event.begins for event in record.events} == {None}


def test_a_record_holds_no_text_unless_it_was_given_some() -> None:
    assert record_to_dict(golden_record())["content"] is None


def test_the_plain_form_says_everything_and_the_wire_only_what_is_not_a_default() -> None:
    record = golden_record(CLIENT)
    plain = json.loads(json.dumps(record_to_dict(record)))
    written = json.loads(encode_record(record))
    assert decode_record(json.dumps(plain).encode()) == record
    assert plain["events"][0]["reason"] is None
    assert written["events"][0] == {"kind": "arrived", "at": 0.0}
    assert written | {"events": plain["events"]} == plain


@given(
    st.builds(
        Event,
        kind=st.sampled_from(EventKind),
        at=st.floats(0, 1e6),
        at_error=st.floats(0, 1),
        attempt=st.integers(0, 3),
        sequence=st.integers(0, 3),
        observability=st.sampled_from(Observability),
        num_tokens=st.none() | st.integers(0, 9),
        num_cached_tokens=st.none() | st.integers(0, 9),
        replica_id=st.none() | st.text(max_size=3),
        disposition=st.none() | st.sampled_from(Disposition),
        delivery=st.none() | st.sampled_from(Delivery),
        reason=st.none() | st.text(max_size=3),
        waited_seconds=st.none() | st.floats(0, 1),
    )
)
def test_every_field_of_an_event_comes_back(event: Event) -> None:
    record = golden_record(events=(event,))
    assert decode_record(encode_record(record)) == record


def test_an_event_is_written_without_what_says_nothing_and_told_whole() -> None:
    record = golden_record(events=(Event(kind=EventKind.ARRIVED, at=0.0),))
    assert json.loads(encode_record(record))["events"] == [{"kind": "arrived", "at": 0.0}]
    [told] = record_to_dict(record)["events"]
    assert told.keys() == set(Event.__struct_fields__)
    assert (told["observability"], told["attempt"], told["reason"]) == ("observed", 0, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [(("disposition",), "vanished"), (("events", 0, "at"), "soon"), (("trace",), None)],
)
def test_what_is_no_record_is_refused_with_the_place(
    path: tuple[str | int, ...], value: object
) -> None:
    plain = json.loads(encode_record(golden_record()))
    at = plain
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(msgspec.ValidationError, match=str(path[0])):
        decode_record(json.dumps(plain).encode())


def test_a_reader_that_is_older_than_the_writer_passes_over_what_it_does_not_know() -> None:
    plain = json.loads(encode_record(golden_record())) | {"added_later": 1}
    assert decode_record(json.dumps(plain).encode()) == golden_record()


def test_a_record_from_before_decisions_were_kept_still_decodes() -> None:
    plain = json.loads(encode_record(golden_record()))
    del plain["decision"], plain["routing"]
    assert decode_record(json.dumps(plain).encode()) == golden_record()
