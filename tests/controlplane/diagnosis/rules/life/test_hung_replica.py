"""One replica that hangs, beside those that work and those that died."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    END,
    MOMENTS,
    fleet,
    found,
    frozen,
    gateway,
    gauge,
    same,
    switched,
    wobble,
    working,
)


def test_a_replica_that_stands_still_while_others_do_all_is_hung() -> None:
    series = [*working("a"), *frozen("b"), *gateway(switched(6, 3), same(6), wobble(10))]
    assert found(fleet(*series)) == {Mechanism.ENGINE_HUNG: Confidence.LIKELY}


def test_a_replica_that_takes_connections_and_says_nothing_is_hung() -> None:
    silent = [
        gauge(Signal.RUNNING, same(4), "b", until=40),
        Series(
            signal=Signal.GENERATION_TOKENS,
            origin=Origin(kind=SourceKind.METRICS, name="tokens", place="b"),
            readings=tuple(Reading(at, at * 100, f"{at * 100:g}") for at in MOMENTS if at <= 40),
            labels={"replica": "b"},
        ),
    ]

    def reason(text: str) -> Fact:
        words = frozenset({"scrape", "failure"})
        return Fact(key="scrape_failure.b", raw=text, words=words, at=END, part="b")

    hung = fleet(*working("a"), *silent, facts=[reason("no answer within 10 s")])
    assert found(hung) == {Mechanism.ENGINE_HUNG: Confidence.LIKELY}
    died = fleet(*working("a"), *silent, facts=[reason("connection refused")])
    assert Mechanism.ENGINE_HUNG not in found(died)
