import pytest
from prometheus_client.parser import text_string_to_metric_families

from dataplane.simulation.faults.metrics import (
    FaultyMetrics,
    Lie,
    LyingMetrics,
    MetricsFault,
    MissingSeries,
    RenamedSeries,
    StaleMetrics,
)
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.observer.dialects import DIALECTS
from dataplane.simulation.observer.exposition import plain_family
from dataplane.simulation.observer.vllm import VLLM
from tests.dataplane.simulation.observed_run import ObservedRun


def scrapes(*faults: MetricsFault, num_sequences: int = 40) -> list[str]:
    run = ObservedRun(VLLM, filters=FaultPlan(faults).metrics("r-1"))
    run.submit_many(num_sequences)
    return [scraped.text for scraped in run.run().scraped]


def names(text: str) -> set[str]:
    return {family.name for family in text_string_to_metric_families(text)}


def value(text: str, name: str) -> float:
    return next(
        s.value for f in text_string_to_metric_families(text) for s in f.samples if s.name == name
    )


ALL_KINDS = [
    StaleMetrics,
    MissingSeries,
    RenamedSeries,
    *(lambda how=how, **fields: LyingMetrics(how=how, **fields) for how in Lie),
]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_intensity_0_changes_no_byte_even_where_the_filter_stands(kind: type[MetricsFault]) -> None:
    run = ObservedRun(VLLM, filters=[FaultyMetrics([kind(at=5, intensity=0)])])
    run.submit_many(40)
    assert [s.text for s in run.run().scraped] == scrapes()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_before_it_begins_nothing_is_changed_and_then_something_is(
    kind: type[MetricsFault],
) -> None:
    faulty, well = scrapes(kind(at=8)), scrapes()
    assert faulty[:8] == well[:8]
    assert faulty[8:14] != well[8:14]


def test_stale_metrics_are_the_same_to_the_byte_until_they_are_not() -> None:
    texts, well = scrapes(StaleMetrics(at=5, duration=6)), scrapes()
    assert set(texts[5:11]) == {well[4]}
    assert texts[11:] == well[11:]


def test_the_more_intense_the_staler() -> None:
    well = scrapes()
    num_stale = [
        sum(a != b for a, b in zip(scrapes(StaleMetrics(intensity=i, seed=3)), well, strict=True))
        for i in (0.2, 0.5, 0.8, 1.0)
    ]
    assert num_stale == sorted(num_stale)
    assert num_stale[0] < num_stale[-1]


def test_a_missing_series_leaves_no_line_and_touches_no_other() -> None:
    texts, well = scrapes(MissingSeries(at=5, series=("*cache_usage*",))), scrapes()
    assert names(well[9]) - names(texts[9]) == {"vllm:kv_cache_usage_perc"}
    assert "usage_perc" not in texts[9]
    assert [line for line in well[9].splitlines() if "usage_perc" not in line] == texts[
        9
    ].splitlines()


def test_a_renamed_series_keeps_its_values() -> None:
    fault = RenamedSeries(series=("vllm:kv_cache*",), old="kv_cache", new="gpu_cache")
    texts, well = scrapes(fault), scrapes()
    assert value(texts[6], "vllm:gpu_cache_usage_perc") == value(
        well[6], "vllm:kv_cache_usage_perc"
    )
    assert "kv_cache_usage" not in texts[6]


def test_a_renamed_counter_is_still_a_counter_to_who_reads_it() -> None:
    text = scrapes(RenamedSeries(series=("vllm:generation_tokens*",)))[9]
    family = next(
        f for f in text_string_to_metric_families(text) if "generation_tokens_v2" in f.name
    )
    assert (family.type, family.samples[0].name) == ("counter", "vllm:generation_tokens_v2_total")


def test_a_factor_grows_with_intensity_and_spares_counters() -> None:
    well = scrapes()
    for intensity in (0.5, 1.0, 3.0):
        text = scrapes(LyingMetrics(how=Lie.FACTOR, intensity=intensity))[6]
        running = value(well[6], "vllm:num_requests_running")
        assert value(text, "vllm:num_requests_running") == pytest.approx((1 + intensity) * running)
        tokens = "vllm:generation_tokens_total"
        assert value(text, tokens) == value(well[6], tokens)


def test_percent_leaves_a_ratio_above_1_and_all_else_alone() -> None:
    text, well = scrapes(LyingMetrics(how=Lie.PERCENT))[6], scrapes()[6]
    usage = "vllm:kv_cache_usage_perc"
    assert value(text, usage) == 100 * value(well, usage) > 1
    assert text.count("\n") == well.count("\n")
    assert value(text, "vllm:num_requests_running") == value(well, "vllm:num_requests_running")


def test_a_stuck_gauge_stays_while_the_rest_goes_on() -> None:
    fault = LyingMetrics(how=Lie.STUCK, at=5, series=("*running",))
    texts, well = scrapes(fault), scrapes()
    running, tokens = "vllm:num_requests_running", "vllm:generation_tokens_total"
    assert {value(t, running) for t in texts[5:]} == {value(well[4], running)}
    assert [value(t, tokens) for t in texts] == [value(t, tokens) for t in well]


def test_a_reset_counter_falls_once_and_grows_on_from_there() -> None:
    texts = scrapes(LyingMetrics(how=Lie.RESET, at=6, series=("*tokens_total",)))
    counts = [value(t, "vllm:generation_tokens_total") for t in texts]
    falls = [n for n in range(1, len(counts)) if counts[n] < counts[n - 1]]
    assert falls == [6]
    assert counts[6] == 0 < counts[7]


def test_a_counter_that_was_reset_tells_the_truth_of_the_process_after() -> None:
    [metrics] = FaultPlan([LyingMetrics(how=Lie.RESET, at=1)]).metrics("r-1")

    def said(true: float, at: float) -> float:
        family = plain_family("tokens_total", "counter", "Tokens.", (), {(): true})
        [passed] = metrics.pass_on([family], "r-1", at)
        return passed.samples[0].value

    assert [said(true, at) for at, true in enumerate([80, 100, 130, 10, 60, 150])] == [
        80, 0, 30, 10, 60, 150,
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
def test_a_run_without_faults_exports_no_name_beyond_its_dialect_s(dialect: object) -> None:
    run = ObservedRun(dialect)  # type: ignore[arg-type]
    run.submit_many(20)
    for scraped in run.run().scraped:
        assert "fault" not in scraped.text.lower()
        assert "intensity" not in scraped.text
        allowed = {s.name.removesuffix("_total") for s in run.exporter.dialect.series}
        allowed |= {
            h.name.removesuffix("_total")
            for h in run.exporter.dialect.histograms(run.scheduler.config)
        }
        exported = {name.removesuffix("_total") for name in names(scraped.text)}
        assert exported <= allowed
