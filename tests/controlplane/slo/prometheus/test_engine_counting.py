"""Objectives of an engine that is only observed, as a real evaluator of PromQL judges them."""

from pathlib import Path

import pytest

from controlplane.slo.engine_histograms import view_by_engine
from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.engine_counting import ENGINE_UNSEEN, engine_counting_groups
from controlplane.slo.prometheus.rules import render
from controlplane.slo.promised import promises_of
from dataplane.latency import Boundary
from tests.controlplane.slo.prometheus.promtool import (
    LINKS,
    Expected,
    Firing,
    check,
    contract,
    firing_alerts,
    try_rules,
)

_AT = 'job="vllm",instance="a:8000",deployment="chat",engine="0",model_name="m"'
_TTFT = "vllm:time_to_first_token_seconds"
_FILES = ["counting.yml", "chat.yml"]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return _write(tmp_path, "1s")


def _write(folder: Path, at_most: str) -> Path:
    spec = contract([{"signal": "ttft", "at_most": at_most, "for": "99%"}])
    view = view_by_engine(list(promises_of("chat", "chat@7", spec)), Boundary.ENGINE, "vllm")
    burning = burning_groups([each.promise for each in view.objectives], LINKS)
    groups = (*engine_counting_groups(view.objectives, LINKS), *burning.groups)
    (folder / "counting.yml").write_text(render(counting_groups(), []))
    (folder / "chat.yml").write_text(render(groups, []))
    return folder


def _bucket(le: str, at: str = _AT) -> str:
    return f'{_TTFT}_bucket{{{at},le="{le}"}}'


def _count(at: str = _AT) -> str:
    return f"{_TTFT}_count{{{at}}}"


def _sum(counted: str, value: float, at: str = "15m") -> Expected:
    """Some minutes after the last request: sums are of another group than what they add up."""
    name = f"pilothouse:objective_{counted}:sum1h"
    labels = 'deployment="chat", objective="ttft", request_class="interactive"'
    return Expected(at=at, expr=name, samples={f"{name}{{{labels}}}": value})


def test_they_are_what_prometheus_takes(rules: Path) -> None:
    check(rules, _FILES)


@pytest.mark.parametrize("le", ["1.0", "1"])
def test_the_bucket_at_the_threshold_is_good_and_the_count_is_judged(rules: Path, le: str) -> None:
    series = {_count(): "0+7x20 140x40", _bucket(le): "0+6x20 120x40", _bucket("2.5"): "0+7x60"}
    try_rules(rules, _FILES, series, expected=[_sum("judged", 140), _sum("good", 120)])


def test_a_bucket_whose_edge_only_looks_alike_is_another_one(tmp_path: Path) -> None:
    folder = _write(tmp_path, "2500ms")
    series = {_count(): "0+7x60", _bucket("2.5"): "0+6x20 120x40", _bucket("205"): "0+7x60"}
    try_rules(folder, _FILES, series, expected=[_sum("good", 120)])


def test_ranks_and_replicas_are_added_up(rules: Path) -> None:
    other, rank = _AT.replace("a:8000", "b:8000"), _AT.replace('engine="0"', 'engine="1"')
    series: dict[str, str] = {}
    for at in (_AT, other, rank):
        series |= {_count(at): "0+2x20 40x40", _bucket("1.0", at): "0+1x20 20x40"}
    try_rules(rules, _FILES, series, expected=[_sum("judged", 120), _sum("good", 60)])


def test_t6_a_count_that_falls_is_a_restart_of_both(rules: Path) -> None:
    # The bucket does not fall: good and judged would be of different processes.
    series = {_count(): "50000x24 12x40", _bucket("1.0"): "5x24 9x40"}
    try_rules(rules, _FILES, series, expected=[_sum("judged", 12), _sum("good", 9)])


def test_what_an_engine_counted_before_anybody_looked_is_no_traffic_of_now(rules: Path) -> None:
    series = {
        _count(): "_x20 100000+1x20 100020x20",
        _bucket("1.0"): "_x20 90000+1x20 90020x20",
    }
    try_rules(rules, _FILES, series, expected=[_sum("judged", 20), _sum("good", 20)])


def test_another_deployment_s_engine_is_not_counted(rules: Path) -> None:
    other = _AT.replace('"chat"', '"summarize"')
    series = {_count(other): "0+7x40", _bucket("1.0", other): "0+6x40"}
    none = Expected(at="10m", expr="pilothouse:objective_judged:sum5m", samples={})
    try_rules(rules, _FILES, series, expected=[none])


def test_an_engine_that_nobody_scrapes_is_told_and_one_that_is_scraped_is_not(rules: Path) -> None:
    scraped = {_count(): "0+7x60", _bucket("1.0"): "0+7x60"}
    assert firing_alerts(rules, _FILES, scraped, at="15m") == set()
    lost = {_count(): "0+7x20 stale _x39", _bucket("1.0"): "0+7x20 stale _x39"}
    assert firing_alerts(rules, _FILES, lost, at="15m") == {ENGINE_UNSEEN}
    unlabelled = {key.replace('deployment="chat",', ""): each for key, each in scraped.items()}
    assert firing_alerts(rules, _FILES, unlabelled, at="15m") == {ENGINE_UNSEEN}


def test_a_bad_hour_fires_and_a_good_one_does_not(rules: Path) -> None:
    grades = ["page_quick", "page_slow", "ticket_quick", "ticket_slow"]
    well = {_count(): "0+1000x160", _bucket("1.0"): "0+999x160"}
    try_rules(rules, _FILES, well, firing=[Firing(at="40m", grades=[])])
    bad = {_count(): "0+1000x160", _bucket("1.0"): "0+800x160"}
    try_rules(rules, _FILES, bad, firing=[Firing(at="40m", grades=grades)])
