"""A record on the wire."""

import json

import msgspec
import pytest

from dataplane.latency import Boundary, ContractTerms, Objective, ObjectiveSignal, Outcome, judge
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


def test_a_record_holds_no_text_unless_it_was_given_some() -> None:
    assert record_to_dict(golden_record())["content"] is None


def test_the_plain_form_is_what_the_wire_says() -> None:
    record = golden_record(CLIENT)
    plain = record_to_dict(record)
    assert json.loads(encode_record(record)) == json.loads(json.dumps(plain))
    assert plain["disposition"] == "stop"
    assert plain["events"][0]["kind"] == "arrived"


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
