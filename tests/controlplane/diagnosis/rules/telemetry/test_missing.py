import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.missing import MISSING
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited

EXPORTED = frozenset({"vllm:kv_cache_usage_perc", "vllm:num_requests_running"})
LOAD = series(Signal.RUNNING, 19, name="vllm:num_requests_running")


def test_a_name_of_an_older_version_is_missing_and_its_new_one_is_told() -> None:
    query = told(panel_query="vllm:gpu_cache_usage_perc", panel="No data")
    found = window(LOAD, query, exported=EXPORTED)
    verdict = MISSING.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert ("vllm:num_requests_running", "19") in cited(found, verdict)


def test_an_endpoint_that_was_not_switched_on_is_missing_as_a_whole() -> None:
    verdict = MISSING.judge(
        window('INFO: 10.0.0.3:1 - "GET /metrics HTTP/1.1" 404 Not Found', told(in_flight=52))
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "the endpoint is off"


def test_what_is_exported_is_not_missing() -> None:
    found = window(LOAD, told(alert="vllm:kv_cache_usage_perc > 0.9"), exported=EXPORTED)
    assert MISSING.judge(found) is None


def test_a_histogram_is_there_by_its_parts() -> None:
    parts = frozenset({f"vllm:inter_token_latency_seconds_{part}" for part in ("sum", "count")})
    found = window(LOAD, told(panel="vllm:inter_token_latency_seconds"), exported=parts)
    assert MISSING.judge(found) is None


def test_an_extract_of_a_page_proves_no_absence() -> None:
    found = window(LOAD, told(alert="vllm:lora_requests_info"), exported=EXPORTED)
    verdict = MISSING.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_nobody_who_reads_means_nothing_is_missed() -> None:
    assert MISSING.judge(window(LOAD, told(in_flight=19), exported=EXPORTED)) is None


def test_names_that_somebody_wrote_down_stand_for_the_page() -> None:
    found = told(
        hpa="vllm_num_requests_waiting through the adapter",
        adapter="no series matched the rule",
        exported="vllm:num_requests_waiting",
        in_flight=140,
    )
    verdict = MISSING.judge(window(found))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert verdict.detail == "vllm_num_requests_waiting"


def test_a_name_that_only_a_change_speaks_of_is_read_by_nobody_yet() -> None:
    change = Change(at=-60, what="alert on vllm:gpu_cache_usage_perc was taken out")
    verdict = MISSING.judge(window(LOAD, change, exported=EXPORTED))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


BARE = frozenset({"python_info", "python_gc_objects_collected_total", "process_open_fds"})


@pytest.mark.parametrize(
    ("exported", "facts", "confidence"),
    [
        (BARE, told(requests_last_5_min=118), Confidence.CERTAIN),
        (BARE, told(scrape_http_status=200), Confidence.POSSIBLE),
        (BARE | {"vllm:num_requests_running"}, told(requests_last_5_min=118), None),
        (EXPORTED, told(prometheus_targets_up=0, in_flight=19), Confidence.LIKELY),
        (EXPORTED, told(prometheus_targets_up=3, in_flight=19), None),
    ],
    ids=["and it works", "nobody knows", "and an engine's", "nobody scrapes", "they scrape"],
)
def test_a_page_of_the_process_alone_and_one_that_nobody_reads(
    exported: frozenset[str], facts: tuple[Fact, ...], confidence: Confidence | None
) -> None:
    verdict = MISSING.judge(window(facts, exported=exported))
    assert (None if verdict is None else verdict.confidence) is confidence
