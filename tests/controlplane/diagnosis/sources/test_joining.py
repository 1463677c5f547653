"""What several sources saw stands in a window once."""

from dataclasses import replace

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.joining import beside, join
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.views.fleet import fleet_of
from controlplane.diagnosis.window import Change, DoubtKind, EngineName
from dataplane.engine_metrics.signal import Signal


def running(kind: SourceKind, *values: tuple[float, float]) -> Part:
    readings = tuple(Reading(at, value, f"{value:g}") for at, value in values)
    origin = Origin(kind=kind, name=f"running in {kind.value}")
    return Part(series=(Series(signal=Signal.RUNNING, origin=origin, readings=readings),))


def test_a_signal_of_log_and_metrics_is_not_added_up() -> None:
    window = join([running(SourceKind.LOG, (0, 3)), running(SourceKind.METRICS, (0, 3), (60, 4))])
    found = window.find(Signal.RUNNING)
    assert found is not None
    assert found.origin.kind is SourceKind.METRICS
    assert list(found.values) == [3, 4]
    assert not window.doubts


def test_sources_that_disagree_at_the_same_moment_are_a_doubt() -> None:
    window = join([running(SourceKind.LOG, (0, 9)), running(SourceKind.METRICS, (0, 3), (60, 4))])
    [doubt] = window.doubts
    assert doubt.kind is DoubtKind.DUPLICATE
    assert "9" in doubt.what
    assert "3" in doubt.what


def test_events_of_later_parts_are_numbered_on() -> None:
    event = LogEvent(kind=LogKind.READY, index=0, line="up")
    window = join([Part(events=(event,), num_lines=10), Part(events=(event,), num_lines=1)])
    assert [each.index for each in window.events] == [0, 10]


def test_a_change_long_before_does_not_stretch_the_window() -> None:
    window = join([Part(start=0.0, end=60.0), Part(changes=(Change(at=-3600.0, what="image"),))])
    assert (window.start, window.end) == (0.0, 60.0)


def test_what_is_known_of_the_engine_goes_before_what_its_log_shows() -> None:
    seen = Part(engine=EngineName(name="vllm", version="0.20"))
    assert join([seen]).engine == EngineName(name="vllm", version="0.20")
    assert join([seen], EngineName(name="sglang")).engine == EngineName(name="sglang")


def test_what_all_replicas_are_set_to_is_told_once_and_what_differs_for_each() -> None:
    def said(place: str, seats: int) -> Part:
        facts = facts_of({"block_size": 16, "seats": seats}, 1.0)
        return Part(facts=tuple(replace(fact, place=place) for fact in facts))

    joined = join([said("a", 8), said("b", 8), said("c", 9)])
    assert [(fact.key, fact.raw, fact.place) for fact in joined.facts] == [
        ("block_size", "16", "a"),
        ("seats", "8", "a"),
        ("seats", "9", "c"),
    ]


def of_replica(part: Part, name: str) -> Part:
    return replace(
        part, series=tuple(replace(each, labels={"replica": name}) for each in part.series)
    )


def test_a_log_that_says_more_of_one_replica_does_not_hide_the_pages_of_two() -> None:
    log = of_replica(running(SourceKind.LOG, *((at, 3) for at in range(0, 60, 5))), "a")
    pages = [
        running(SourceKind.METRICS, (0, 3), (60, 3)),
        running(SourceKind.METRICS, (0, 8), (60, 8)),
    ]
    found = join([log, of_replica(pages[0], "a"), of_replica(pages[1], "b")])
    assert {each.labels["replica"] for each in found.all_series(Signal.RUNNING)} == {"a", "b"}
    total = found.find(Signal.RUNNING)
    assert total is not None
    assert total.last.value == 11


def test_one_engine_is_one_replica_by_whatever_names_its_page_and_its_log_call_it() -> None:
    waiting = replace(running(SourceKind.LOG, (0, 7)).series[0], signal=Signal.WAITING)
    log = of_replica(Part(series=(waiting,)), "vllm-0")
    page = of_replica(running(SourceKind.METRICS, (0, 3), (60, 4)), "10.0.0.7:8000")
    window = join([log, page])
    assert {each.labels["replica"] for each in window.series} == {"10.0.0.7:8000"}
    assert fleet_of(window) is None
    two = join(
        [log, page, of_replica(running(SourceKind.METRICS, (0, 1), (60, 1)), "10.0.0.8:8000")]
    )
    assert {each.labels["replica"] for each in two.all_series(Signal.WAITING)} == {"vllm-0"}


def test_the_engine_is_the_one_that_most_name_and_a_gateway_of_ours_only_without_one() -> None:
    gateway, sglang, vllm = (
        Part(engine=EngineName(name=name)) for name in ("pilothouse gateway", "sglang", "vllm")
    )
    assert join([gateway, gateway, sglang, vllm, vllm]).engine == EngineName(name="vllm")
    assert join([gateway, sglang, vllm]).engine == EngineName(name="sglang")
    assert join([gateway]).engine == EngineName(name="pilothouse gateway")


def test_a_window_ends_when_one_looked_whatever_a_log_on_another_clock_says() -> None:
    ahead = Part(start=100, end=7300)
    assert join([ahead]).end == 7300
    looked = join([ahead], end=160)
    assert (looked.start, looked.end) == (100, 160)
    assert (join([], end=160).start, join([], end=160).end) == (160, 160)


def test_joined_in_two_steps_is_joined_in_one() -> None:
    event = LogEvent(kind=LogKind.READY, index=0, line="up")
    parts = [
        Part(events=(event,), lines=("up",), num_lines=3, start=5, end=9),
        Part(changes=(Change(at=8, what="later"), Change(at=2, what="earlier"))),
        Part(events=(event,), facts=facts_of({"in_flight": 3}, 7), num_lines=1),
    ]
    assert join([beside(parts[:2]), parts[2]]) == join(parts)
    assert [change.at for change in join(parts).changes] == [2, 8]
