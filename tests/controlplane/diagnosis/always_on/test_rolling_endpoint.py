"""A page every five seconds, for ever, in bounded memory."""

import itertools

from controlplane.diagnosis.always_on.clipping import newest_part
from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.replica_history import ReplicaHistory
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.always_on.turns import Target
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.window import DoubtKind, Window
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.targets import canonical
from tests.controlplane.diagnosis.always_on.metrics_server import vllm_page

_TARGET = Target(replica_id="r", deployment="chat", address="10.0.0.1:1")
_HISTOGRAM = "vllm:time_to_first_token_seconds"


def _page(number: int) -> str:
    buckets = "".join(
        f'{_HISTOGRAM}_bucket{{le="{bound}",model_name="m"}} {number}\n' for bound in (1.0, "+Inf")
    )
    return (
        vllm_page(running=number % 7, generated=100 * number)
        + f"# TYPE {_HISTOGRAM} histogram\n{buckets}"
        + f'{_HISTOGRAM}_count{{model_name="m"}} {number}\n'
        + f'{_HISTOGRAM}_sum{{model_name="m"}} {number / 2}\n'
    )


def _after(num_pages: int, keep: float = 600.0) -> Window:
    history = ReplicaHistory("r", "http://10.0.0.1:1/metrics", PageReaders())
    for number in range(num_pages):
        text = _page(number)
        history.take(ScrapedPage(target=_TARGET, place="p", text=text), 5.0 * number)
        history.forget_before(5.0 * number - keep)
    told = history.tell(5.0 * num_pages)
    assert told is not None
    return join([told])


def test_only_the_last_minutes_are_kept() -> None:
    running = _after(500).find(Signal.RUNNING)
    assert running is not None
    assert running.span_seconds == 600.0
    assert len(running.readings) == 121
    assert running.last.at == 5.0 * 499


def test_a_look_at_one_that_is_only_observed_tells_the_edges_of_its_newest_histograms() -> None:
    history = ReplicaHistory("r", "p", PageReaders(), is_observed_only=True)
    history.take(ScrapedPage(target=_TARGET, place="p", text=_page(1)), 5.0)
    look = history.look()
    assert look is not None
    assert look.latency_edges == {_HISTOGRAM: (1.0,)}
    bare = vllm_page(running=1, generated=9)
    history.take(ScrapedPage(target=_TARGET, place="p", text=bare), 10.0)
    look = history.look()
    assert look is not None
    assert look.latency_edges == {}


def test_of_histograms_some_states_are_kept_and_the_newest_always() -> None:
    histogram = _after(500).find_histogram(Signal.TTFT)
    assert histogram is not None
    moments = [reading.at for reading in histogram.readings]
    assert moments[-1] == 5.0 * 499
    assert len(moments) <= 26
    assert max(after - before for before, after in itertools.pairwise(moments)) <= 30
    assert histogram.mean == 0.5


def test_telling_twice_says_the_same() -> None:
    history = ReplicaHistory("r", "place", PageReaders())
    for number, text in enumerate((_page(1), _page(2), _page(0))):
        history.take(ScrapedPage(target=_TARGET, place="p", text=text), 5.0 * number)
    first, again = history.tell(15.0), history.tell(15.0)
    assert first == again
    assert first is not None
    assert any(doubt.kind is DoubtKind.COUNTER_RESET for doubt in first.doubts)


def test_the_newest_part_has_what_is_newest_and_a_histogram_from_where_it_began() -> None:
    part = newest_part(_after(100), 60.0)
    running, histogram = part.find(Signal.RUNNING), part.find_histogram(Signal.TTFT)
    assert running is not None
    assert running.span_seconds == 60.0
    assert histogram is not None
    assert 12 <= histogram.observed.count <= 18


def test_what_is_no_metrics_page_is_an_unanswered_scrape() -> None:
    history = ReplicaHistory("r", "place", PageReaders())
    history.take(
        ScrapedPage(target=_TARGET, place="p", text="<html>hello</html>", kind="200 text/html"), 5.0
    )
    assert history.tell(10.0) is None
    assert history.why_silent is not None
    assert history.why_silent == "it answers no metrics page (200 text/html)"


def test_what_lines_mean_can_be_forgotten_without_losing_a_course() -> None:
    readers = PageReaders(max_heads=5)
    history = ReplicaHistory("r", "place", readers)
    for number in range(4):
        history.take(ScrapedPage(target=_TARGET, place="p", text=_page(number)), 5.0 * number)
        readers.forget_if_many()
    told = history.tell(20.0)
    assert told is not None
    series = join([told]).find(Signal.GENERATION_TOKENS)
    assert series is not None
    assert series.values == (0.0, 100.0, 200.0, 300.0)


def test_an_endpoint_that_shows_other_series_at_each_scrape_costs_bounded_memory() -> None:
    readers = PageReaders(max_heads=1000)
    history = ReplicaHistory("r", "place", readers)
    known = []
    for scrape in range(6):
        lines = [f'vllm:num_requests_running{{model_name="m{scrape}_{i}"}} 1' for i in range(900)]
        lines += [f'vllm:cache_config_info{{k{scrape}_{i}="{i}"}} 1' for i in range(900)]
        text = "\n".join([*lines, ""])
        readers.forget_if_many()
        history.take(ScrapedPage(target=_TARGET, place="p", text=text), 5.0 * scrape)
        known.append(readers.num_heads)
    told = history.tell(30.0)
    assert told is not None
    assert max(known) <= 1000 + 1800
    assert len(told.series) <= 4000
    assert [each.what for each in told.doubts if "are followed of one endpoint" in each.what]
    assert len(told.facts) <= 300
    assert canonical.cache_info().maxsize is not None
