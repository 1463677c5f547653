"""What vLLM's metrics say of its state, under old names and new, of one engine and of several."""

from dataplane.engine import EngineStats
from dataplane.engine_metrics.scrape import read_scrape
from dataplane.engine_metrics.tables.vllm import VLLM
from pilothouse_vllm.gauges import SIGNALS, read_stats


def read(text: str) -> EngineStats:
    return read_stats(read_scrape(VLLM, text, SIGNALS))


def test_a_version_that_had_other_names_is_read_by_them() -> None:
    stats = read(
        'vllm:num_requests_running{model_name="m"} 3.0\n'
        'vllm:num_requests_waiting{model_name="m"} 5.0\n'
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="101"} 1.0\n'
    )
    assert (stats.num_running, stats.num_waiting) == (3, 5)
    assert (stats.num_blocks, stats.num_referenced_blocks, stats.num_free_blocks) == (101, 50, 51)
    assert stats.num_preemptions is None  # nobody told, and nobody counted 0


def test_engines_side_by_side_are_added_up_each_with_its_own_ratio() -> None:
    stats = read(
        "".join(
            f'vllm:cache_config_info{{engine="{n}",block_size="16",num_gpu_blocks="101"}} 1.0\n'
            f'vllm:kv_cache_usage_perc{{engine="{n}"}} {ratio}\n'
            f'vllm:num_preemptions_total{{engine="{n}"}} {n + 1}.0\n'
            for n, ratio in ((0, 1.0), (1, 0.0))
        )
    )
    assert (stats.num_blocks, stats.num_referenced_blocks, stats.num_free_blocks) == (202, 100, 102)
    assert stats.num_preemptions == 3


def test_blocks_that_one_of_several_engines_does_not_tell_are_told_by_none() -> None:
    stats = read(
        'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="101"} 1.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.5\n'
        'vllm:kv_cache_usage_perc{engine="1"} 0.5\n'
    )
    assert (stats.num_blocks, stats.num_free_blocks) == (None, None)


def test_a_ratio_out_of_range_is_not_bent_into_it() -> None:
    stats = read(
        'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="101"} 1.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 52.0\n'
    )
    assert stats.num_referenced_blocks is None
    assert stats.num_free_blocks is None
