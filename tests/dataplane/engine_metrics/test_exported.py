"""A metric that an engine does not export is an error that names the one it does."""

import pytest

from dataplane.engine_metrics.exported import (
    MetricNotExportedError,
    exported_by_version,
    require_exported,
)
from dataplane.engine_metrics.tables.sglang import SGLANG
from dataplane.engine_metrics.tables.vllm import VLLM


@pytest.mark.parametrize(
    ("version", "name", "suggested"),
    [
        ("0.13.0", "vllm:time_per_output_token_seconds", ("vllm:inter_token_latency_seconds",)),
        ("0.12.1", "vllm:gpu_cache_usage_perc", ("vllm:kv_cache_usage_perc",)),
        ("v0.32", "vllm:gpu_prefix_cache_hits_total", ("vllm:prefix_cache_hits_total",)),
        ("0.8.5", "vllm:kv_cache_usage_perc", ("vllm:gpu_cache_usage_perc",)),
        ("0.32", "vllm:kv_cache_usage_percent", ("vllm:kv_cache_usage_perc",)),
        ("0.32", "vllm:cpu_cache_usage_perc", ()),
    ],
)
def test_t10_a_name_that_a_version_does_not_export_is_refused_with_the_one_it_does(
    version: str, name: str, suggested: tuple[str, ...]
) -> None:
    with pytest.raises(MetricNotExportedError) as refused:
        require_exported(name, VLLM, exported_by_version(VLLM, version), f"vllm {version}")
    assert refused.value.name == name
    assert refused.value.suggested[:1] == suggested
    assert refused.value.exporter == f"vllm {version}"


def test_what_replaced_a_gauge_by_a_counter_is_suggested_though_it_tells_another_signal() -> None:
    with pytest.raises(MetricNotExportedError) as refused:
        require_exported("sglang:num_retracted_reqs", SGLANG, exported_by_version(SGLANG, "0.5.1"))
    assert refused.value.suggested == ("sglang:num_retracted_requests_total",)


@pytest.mark.parametrize("version", ["0.8.5", "0.13", "0.32.1"])
def test_what_a_version_exports_is_taken(version: str) -> None:
    require_exported("vllm:time_to_first_token_seconds", VLLM, exported_by_version(VLLM, version))


def test_a_page_counts_for_more_than_any_version() -> None:
    require_exported("vllm:gpu_cache_usage_perc", VLLM, {"vllm:gpu_cache_usage_perc"})


def test_what_is_no_version_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="main"):
        exported_by_version(VLLM, "main")
