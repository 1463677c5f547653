"""Case files are read as they are written, and bad ones say what to do."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.sources.case import CaseError, is_case, read_case
from dataplane.engine_metrics.signal import Signal

CASE = """\
id: four-wait
engine: {name: sglang, version: 0.20}
input:
- kind: change
  at_s: -60
  what: image 0.19 -> 0.20
- kind: log
  text: |
    [2026-11-30 08:00:05] Decode batch, #running-req: 1, token usage: 0.03, #queue-req: 4
- kind: gateway
  at_s: 30
  values: {in_flight: 5, gpu_util: 0.70, healthy: yes}
expect:
  mechanism: queue.blocked
  confidence: likely
  evidence: [waiting 4]
  not: [queue.overload]
  remedy: restart it
filled_in: [gpu_util]
"""


def test_parts_of_a_case_are_one_window() -> None:
    case = read_case(CASE, "here.yaml")
    window = case.window
    assert (case.id, case.filled_in) == ("four-wait", ("gpu_util",))
    assert window.engine is not None
    assert window.engine.version == "0.20"
    assert (window.start, window.end) == (0.0, 30.0)
    waiting = window.find(Signal.WAITING)
    assert waiting is not None
    assert waiting.last.at == 0.0
    assert window.number("in flight") == 5.0
    assert [change.what for change in window.changes] == ["image 0.19 -> 0.20"]


def test_values_are_cited_as_they_were_written() -> None:
    facts = {fact.key: fact.raw for fact in read_case(CASE, "here.yaml").window.facts}
    assert facts == {"in_flight": "5", "gpu_util": "0.70", "healthy": "yes"}


def test_the_confirmed_answer_is_read() -> None:
    expect = read_case(CASE, "here.yaml").expect
    assert expect is not None
    assert expect.mechanism is Mechanism.QUEUE_BLOCKED
    assert expect.confidence is Confidence.LIKELY
    assert expect.excluded == (Mechanism.QUEUE_OVERLOAD,)


def test_a_case_that_only_asks_has_no_answer() -> None:
    case = read_case("input:\n- {kind: gateway, values: {in_flight: 0}}\n", "mine.yaml")
    assert (case.id, case.expect, case.engine) == ("mine.yaml", None, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("input: [", "is no YAML"),
        ("- a\n- b\n", "is no case"),
        ("input: []\n", "has no input"),
        ("input:\n- {kind: trace}\n", "one of log, metrics, gateway, change"),
        ("input:\n- {knid: log, text: x}\n", "it has no kind; 'knid' is no key of it"),
        ("input:\n- {kind: log}\n", "part 1 of input: it has no text"),
        ("input:\n- {kind: gateway}\n", "part 1 of input: a table is wanted"),
        ("input:\n- {kind: gateway, at_s: soon, values: {a: 1}}\n", "write seconds as a number"),
        (CASE.replace("queue.blocked", "queue.stuck"), "there is no mechanism 'queue.stuck'"),
        (CASE.replace("likely", "sure"), "one of possible, likely, certain"),
    ],
)
def test_a_bad_case_is_refused_with_place_and_remedy(text: str, complaint: str) -> None:
    with pytest.raises(CaseError, match=r"^mine\.yaml") as refused:
        read_case(text, "mine.yaml")
    assert complaint in str(refused.value)


def test_a_case_is_told_from_a_log() -> None:
    assert is_case(CASE)
    assert not is_case("INFO input: none\n")


def test_a_key_that_nobody_reads_is_told_with_the_one_that_may_be_meant() -> None:
    text = """
id: x
expectt: {}
input:
- {kind: gateway, at: 60, values: {in_flight: 3}}
"""
    doubts = read_case(text, "x.yaml").window.doubts
    assert [(doubt.name, doubt.what.partition("Valid")[0]) for doubt in doubts] == [
        ("x.yaml", "passed over: expectt is no key of it; did you mean expect? "),
        ("x.yaml, part 1 of input", "passed over: at is no key of it; did you mean at_s? "),
    ]
