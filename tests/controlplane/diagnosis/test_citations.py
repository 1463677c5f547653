"""Figures in sentences lead back to where they were read, whoever wrote the sentence."""

import pytest

from controlplane.diagnosis.citations import figures_in, with_citations
from controlplane.diagnosis.citing import course, moved
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window


def _cited(found: Window, sentence: str) -> list[tuple[str, str, float]]:
    return [(each.name, each.raw, each.at) for each in figures_in(found, sentence)]


def _judged(found: Window, *evidence: str) -> Verdict:
    return with_citations(found, Verdict(confidence=Confidence.LIKELY, evidence=evidence))


def test_each_end_of_a_counter_is_cited_as_of_its_own_time() -> None:
    thrown = series(Signal.PREEMPTIONS, 371, 400, 603)
    found = _cited(window(thrown), f"{moved(thrown)}: it costs")
    assert found == [("test:preemptions", "371", 0), ("test:preemptions", "603", 20)]


def test_a_course_is_cited_reading_by_reading() -> None:
    waiting = series(Signal.WAITING, 43, 42, 33, 23, 23)
    found = _cited(window(waiting), course(waiting))
    assert [at for _, _, at in found] == [0, 10, 20, 30, 40]


def test_the_seconds_that_a_value_stood_are_none_of_its_figures() -> None:
    running = series(Signal.RUNNING, 20, 2, 2)
    found = _cited(window(running), "test:running 2 for 20 s")
    assert found == [("test:running", "2", 20)]


def test_a_name_within_another_is_not_cited() -> None:
    running = series(Signal.RUNNING, 5, name="running")
    assert not _cited(window(running), "num_running 5 and vllm:running 5 and running_max 5")


def test_what_one_replica_has_is_cited_as_of_that_replica() -> None:
    one = series(Signal.RUNNING, 8, replica="a")
    two = series(Signal.RUNNING, 8, replica="b")
    [cited] = figures_in(window(one, two), "b: test:running 8 for 60 s")
    assert cited.place == "b"


def test_what_all_replicas_have_together_is_cited_as_of_none() -> None:
    one = series(Signal.RUNNING, 8, replica="a")
    two = series(Signal.RUNNING, 9, replica="b")
    [cited] = figures_in(window(one, two), "test:running 17")
    assert (cited.place, cited.value) == ("", 17)


def test_what_somebody_told_has_its_unit_and_its_age() -> None:
    found = window(told(10, itl_p99_ms=40.62), end=70)
    [cited] = figures_in(found, "itl_p99_ms 40.62 ms, and no more")
    assert cited.value == pytest.approx(0.04062)
    assert (cited.signal, cited.unit, cited.source) == ("itl_p99_ms", "s", SourceKind.GATEWAY)
    assert (cited.raw, cited.at, cited.age_seconds) == ("40.62 ms", 10, 60)


def test_what_stood_there_besides_decided_nothing() -> None:
    found = window(fact("in_flight", 61), fact("tokens", 7))
    verdict = _judged(found, "in_flight 61: they wait", "told besides: tokens 7")
    assert {each.name: each.is_beside for each in verdict.cited} == {
        "in_flight": False,
        "tokens": True,
    }


def test_what_a_rule_cited_itself_is_cited_once() -> None:
    found = window(fact("in_flight", 61))
    once = _judged(found, "in_flight 61")
    assert with_citations(found, once).cited == once.cited


def test_words_lead_back_too() -> None:
    long = "INFO 06-12 10:00:01 engine.py:1 the engine threw request chat-17 out of its cache"
    found = window(
        long,
        fact("probe", "no answer in 20 s", at=5),
        Change(at=30, what="2 replicas -> 4 replicas"),
        end=60,
    )
    verdict = _judged(
        found,
        f"it says so: {long[:82]}...",
        "probe no answer in 20 s",
        "30 s: 2 replicas -> 4 replicas",
    )
    assert [(each.name, each.text, each.age_seconds) for each in verdict.told] == [
        ("line", long, None),
        ("probe", "no answer in 20 s", 55),
        ("change", "2 replicas -> 4 replicas", 30),
    ]


def test_a_replica_is_named_by_its_whole_name() -> None:
    first = series(Signal.RUNNING, 3, 8, 8, replica="chat-1")
    tenth = series(Signal.RUNNING, 8, 8, 8, replica="chat-10")
    (cited,) = figures_in(window(first, tenth), "chat-10: test:running 8 for 20 s")
    assert cited.place == "chat-10"
