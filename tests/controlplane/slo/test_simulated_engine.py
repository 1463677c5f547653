"""Pages of a simulated vLLM and SGLang: seen by the diagnosis, counted by our rules."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controlplane.diagnosis.always_on.page_readers import PageReaders
from controlplane.diagnosis.always_on.replica_history import ReplicaHistory
from controlplane.diagnosis.always_on.scraper import ScrapedPage
from controlplane.diagnosis.always_on.turns import Target
from controlplane.slo.engine_histograms import EngineView, view_by_engine
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.engine_counting import engine_counting_groups
from controlplane.slo.prometheus.rules import render
from controlplane.slo.promised import promises_of
from dataplane.engine_metrics.bucket_edges import KNOWN_EDGES
from dataplane.latency import Boundary
from dataplane.simulation.observer.dialects import get_dialect
from tests.controlplane.slo.prometheus.promtool import LINKS, SCRAPE_SECONDS, contract, told
from tests.dataplane.simulation.observed_run import ObservedRun

_TARGET = Target(replica_id="r", deployment="chat", address="10.0.0.1:1", is_observed_only=True)
ENGINES = pytest.mark.parametrize("engine", ["vllm", "sglang"])


def _pages(engine: str) -> list[str]:
    """Some minutes of requests, and some without any."""
    run = ObservedRun(get_dialect(engine), every=SCRAPE_SECONDS, until=900)
    run.submit_many(300, over=300)
    return [scraped.text for scraped in run.run().scraped]


def _view(engine: str, page: str) -> EngineView:
    history = ReplicaHistory("r", "p", PageReaders(), is_observed_only=True)
    history.take(ScrapedPage(target=_TARGET, place="p", text=page), 5.0)
    look = history.look()
    assert look is not None
    spec = contract(
        [
            {"signal": "ttft", "at_most": "1s", "for": "99%"},
            {"signal": "e2e", "at_most": "2s", "for": "95%"},
        ]
    )
    promises = list(promises_of("chat", "chat@7", spec))
    return view_by_engine(promises, Boundary.ENGINE, engine, look.latency_edges)


@ENGINES
def test_the_edges_of_its_page_are_those_that_are_known(engine: str) -> None:
    view = _view(engine, _pages(engine)[-1])
    assert view.notes == ()
    assert [each.histogram in KNOWN_EDGES for each in view.objectives] == [True, True]


@ENGINES
def test_its_requests_are_counted_as_its_page_has_them(engine: str, tmp_path: Path) -> None:
    pages = _pages(engine)
    objectives = _view(engine, pages[-1]).objectives
    for name, groups in (
        ("counting.yml", counting_groups()),
        ("engine.yml", engine_counting_groups(objectives, LINKS)),
    ):
        (tmp_path / name).write_text(render(groups, []))
    counted = told(
        tmp_path,
        ["counting.yml", "engine.yml"],
        _series(pages),
        expr='{__name__=~"pilothouse:objective_(good|judged):sum1h"}',
        at=f"{len(pages) * SCRAPE_SECONDS // 60}m",
    )
    last = _samples(pages[-1])
    expected = [
        sum(value for (name, labels), value in last.items() if name == wanted and bound in labels)
        for each in objectives
        for wanted, bound in (
            (f"{each.histogram}_bucket", f'le="{each.edge}"'),
            (f"{each.histogram}_count", ""),
        )
    ]
    assert sorted(counted.values()) == sorted(expected)
    assert all(
        0 < good < judged for good, judged in zip(expected[::2], expected[1::2], strict=True)
    )


def _samples(page: str) -> dict[tuple[str, str], float]:
    """Of histograms of latencies, by name and labels."""
    return {
        (sample.name, ",".join(f'{key}="{value}"' for key, value in sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if family.name in KNOWN_EDGES
    }


def _series(pages: list[str]) -> dict[str, str]:
    """As a scraper has them, with the label that the rules ask for."""
    read = [_samples(page) for page in pages]
    return {
        f'{name}{{job="e",instance="a:1",deployment="chat",{labels}}}': " ".join(
            str(int(found[name, labels])) if (name, labels) in found else "_" for found in read
        )
        for name, labels in read[-1]
    }
