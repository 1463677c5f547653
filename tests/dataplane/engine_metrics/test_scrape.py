"""What a page says of the few signals that are wanted, under names old and new."""

import pytest

from dataplane.engine_metrics.scrape import read_scrape
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.sglang import SGLANG
from dataplane.engine_metrics.tables.vllm import VLLM


def test_of_an_old_and_a_new_name_the_new_one_is_read_and_the_old_one_where_it_is_alone() -> None:
    old, new = "vllm:gpu_cache_usage_perc 0.1\n", "vllm:kv_cache_usage_perc 0.2\n"
    assert read_scrape(VLLM, old + new, {Signal.KV_USAGE}).total(Signal.KV_USAGE) == 0.2
    assert read_scrape(VLLM, old, {Signal.KV_USAGE}).total(Signal.KV_USAGE) == 0.1


def test_a_page_with_more_samples_than_any_engine_has_is_refused_before_it_is_parsed() -> None:
    name = "vllm:num_requests_running"
    page = "".join(f'{name}{{engine="{number}"}} 1.0\n' for number in range(5000))
    with pytest.raises(ValueError, match="5000 samples"):
        read_scrape(VLLM, page, {Signal.RUNNING})


def test_of_a_page_with_a_line_that_is_no_sample_nothing_is_believed() -> None:
    page = 'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} many\n'
    with pytest.raises(ValueError, match="many"):
        read_scrape(VLLM, page, {Signal.RUNNING})
    assert read_scrape(VLLM, page, {Signal.WAITING}).told == {}  # nobody wanted that line


def test_engines_side_by_side_add_up_and_one_can_be_asked_for() -> None:
    text = (
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
        'vllm:num_requests_running{engine="1",model_name="m"} 4.0\n'
        'vllm:num_requests_waiting{engine="0",model_name="m"} 9.0\n'
    )
    scrape = read_scrape(VLLM, text, {Signal.RUNNING})
    assert scrape.parts == ("0", "1")
    assert scrape.total(Signal.RUNNING) == 7
    assert scrape.total(Signal.RUNNING, part="1") == 4
    assert scrape.total(Signal.WAITING) is None  # nobody wanted it


def test_of_how_engines_are_set_and_of_ratios_two_have_no_more_than_one() -> None:
    text = "".join(
        f'sglang:page_size{{dp_rank="{n}"}} 16\nsglang:token_usage{{dp_rank="{n}"}} 0.{n}\n'
        for n in (1, 2)
    )
    scrape = read_scrape(SGLANG, text, {Signal.KV_BLOCK_SIZE, Signal.KV_USAGE})
    assert scrape.count(Signal.KV_BLOCK_SIZE) == 16
    assert scrape.total(Signal.KV_USAGE) == 0.2


def test_a_setting_in_a_label_is_read_where_no_gauge_tells_it() -> None:
    info = 'sglang:cache_config_info{page_size="32",num_pages="None"} 1\n'
    wanted = {Signal.KV_BLOCK_SIZE, Signal.KV_BLOCKS}
    assert read_scrape(SGLANG, info, wanted).count(Signal.KV_BLOCK_SIZE) == 32
    assert read_scrape(SGLANG, info, wanted).count(Signal.KV_BLOCKS) is None
    gauge = "sglang:page_size 16\n"
    assert read_scrape(SGLANG, info + gauge, wanted).count(Signal.KV_BLOCK_SIZE) == 16


def test_of_a_histogram_it_is_read_how_often_it_was_observed() -> None:
    name = "vllm:iteration_tokens_total"
    text = (
        f'{name}_bucket{{le="1"}} 3\n{name}_bucket{{le="+Inf"}} 8\n{name}_count 8\n{name}_sum 9\n'
    )
    assert read_scrape(VLLM, text, {Signal.STEP_TOKENS}).count(Signal.STEP_TOKENS) == 8


def test_copies_of_ranks_and_parts_beside_their_total_are_not_counted_again() -> None:
    text = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}",priority="{priority}"}} 2.0\n'
        for dp in (0, 1)
        for tp in (0, 1)
        for priority in ("", "5")
    )
    assert read_scrape(SGLANG, text, {Signal.RUNNING}).total(Signal.RUNNING) == 4


def test_parts_without_a_total_beside_them_are_added_up() -> None:
    text = "".join(f'sglang:num_running_reqs{{priority="{priority}"}} 2.0\n' for priority in (1, 5))
    assert read_scrape(SGLANG, text, {Signal.RUNNING}).total(Signal.RUNNING) == 4


def test_what_is_no_number_or_below_zero_is_missing_and_not_zero() -> None:
    scrape = read_scrape(VLLM, 'vllm:kv_cache_usage_perc{engine="0"} NaN\n', {Signal.KV_USAGE})
    assert scrape.total(Signal.KV_USAGE) is None
    scrape = read_scrape(VLLM, "vllm:num_requests_running -1\n", {Signal.RUNNING})
    assert scrape.count(Signal.RUNNING) is None


def test_a_line_ends_where_an_exposition_says_so_and_not_within_the_name_of_a_model() -> None:
    page = 'vllm:num_requests_running{model_name="a\u2028b"} 3\n'
    assert read_scrape(VLLM, page, {Signal.RUNNING}).total(Signal.RUNNING) == 3
