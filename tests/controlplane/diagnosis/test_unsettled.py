"""Where nothing can be told: what was seen, and what to look at next."""

from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Origin,
    Reading,
    Series,
    SourceKind,
)
from controlplane.diagnosis.unsettled import asked, seen
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal

_TTFT = HistogramSeries(
    signal=Signal.TTFT,
    origin=Origin(kind=SourceKind.METRICS, name="vllm:time_to_first_token_seconds"),
    readings=(HistogramReading(0, (0.5, float("inf")), (410, 500), 181.2, 500),),
)
_WAITING = Series(
    signal=Signal.WAITING,
    origin=Origin(kind=SourceKind.METRICS, name="vllm:num_requests_waiting"),
    readings=(Reading(0, 0, "0"),),
)


def test_after_a_change_it_asks_for_the_same_from_before() -> None:
    window = Window(
        start=0,
        end=0,
        series=(_WAITING,),
        histograms=(_TTFT,),
        changes=(Change(at=-3600, what="engine 0.5.3 -> 0.5.4"),),
    )
    assert seen(window) == (
        "engine 0.5.3 -> 0.5.4, 3600 s before the end of what was seen",
        "vllm:num_requests_waiting 0",
        "vllm:time_to_first_token_seconds: mean 0.3624 s of 500",
    )
    needs = asked(window)
    assert needs[:3] == (
        "TTFT measured at the gateway, before and after the change",
        "the same histogram (vllm:time_to_first_token_seconds) from before the change",
        "the same figures a minute later: one moment tells no course",
    )
    assert len(needs) <= 6


def test_what_is_there_is_not_asked_for() -> None:
    window = Window(start=0, end=60, series=(_WAITING,), histograms=(_TTFT,), lines=("a line",))
    needs = asked(window)
    assert "requests running and waiting over time" in needs
    assert not any("log" in need or "users see" in need or "change" in need for need in needs)
