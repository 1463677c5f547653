"""Pages over time into series, whatever engine and version they are of."""

import math

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.unsettled import asked
from controlplane.diagnosis.window import DoubtKind, EngineName, Window
from dataplane import names
from dataplane.engine_metrics.signal import Signal


def _part(*texts: str, every: float = 10.0) -> Part:
    return series_of([Snapshot(at=index * every, text=text) for index, text in enumerate(texts)])


def _only(part: Part, signal: Signal) -> Series:
    (found,) = [each for each in part.series if each.signal is signal]
    return found


def test_two_pages_of_vllm_become_gauges_counters_and_a_histogram() -> None:
    page = (
        'vllm:num_requests_running{{engine="0",model_name="m"}} 118.0\n'
        'vllm:num_preemptions_total{{engine="0",model_name="m"}} {preempted}\n'
        'vllm:inter_token_latency_seconds_bucket{{engine="0",le="0.025"}} {fast}\n'
        'vllm:inter_token_latency_seconds_bucket{{engine="0",le="+Inf"}} {all}\n'
        'vllm:inter_token_latency_seconds_sum{{engine="0"}} {all}\n'
        'vllm:inter_token_latency_seconds_count{{engine="0"}} {all}\n'
    )
    part = _part(
        page.format(preempted="371.0", fast="10", all="20"),
        page.format(preempted="6.03e+02", fast="40", all="60"),
    )
    running, preempted = _only(part, Signal.RUNNING), _only(part, Signal.PREEMPTIONS)
    assert running.labels == {}
    assert [reading.raw for reading in preempted.readings] == ["371", "603"]
    assert preempted.increase == 232
    assert preempted.origin.name == "vllm:num_preemptions_total"
    (itl,) = part.histograms
    assert list(itl.observed.counts) == [30, 40]
    assert itl.mean == 1
    assert part.engine == EngineName(name="vllm")
    assert (part.start, part.end) == (0, 10)


def test_ranks_of_a_data_parallel_group_stay_apart() -> None:
    part = _part(
        'vllm:num_requests_running{engine="0"} 27\nvllm:num_requests_running{engine="1"} 5\n'
    )
    found = {each.labels["engine"]: each.last.value for each in part.series}
    assert found == {"0": 27, "1": 5}
    window = Window(start=0, end=0, series=part.series)
    whole = window.find(Signal.RUNNING)
    assert whole is not None
    assert whole.last.value == 32


def test_tensor_parallel_ranks_that_tell_the_same_count_once() -> None:
    page = "".join(
        f'sglang:num_running_reqs{{tp_rank="{tp}",dp_rank="{dp}"}} {5 + dp}\n'
        for tp in range(4)
        for dp in range(2)
    )
    found = {each.labels["engine"]: each.last.value for each in _part(page).series}
    assert found == {"0": 5, "1": 6}


def test_parts_by_priority_do_not_count_beside_their_total() -> None:
    told = 'sglang:num_queue_reqs{priority="1"} 3\nsglang:num_queue_reqs{priority="2"} 4\n'
    assert _only(_part(told), Signal.WAITING).last.value == 7
    both = told + 'sglang:num_queue_reqs{priority=""} 7\n'
    assert _only(_part(both), Signal.WAITING).last.value == 7


def test_settings_in_labels_become_series_and_facts() -> None:
    part = _part(
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="18724",engine="0",'
        'gpu_memory_utilization="0.9",enable_prefix_caching="True",cpu_offload_gb="None"} 1.0\n'
    )
    assert _only(part, Signal.KV_BLOCKS).last.raw == "18724"
    capacity = _only(part, Signal.KV_CAPACITY)
    assert capacity.last.value == 299584
    assert capacity.origin.name == "vllm:cache_config_info"
    facts = {fact.key: fact.raw for fact in part.facts}
    assert facts["gpu_memory_utilization"] == "0.9"
    assert facts["enable_prefix_caching"] == "True"
    assert "cpu_offload_gb" not in facts


def test_a_setting_is_told_again_only_when_it_changed() -> None:
    page = 'sglang:cache_config_info{{page_size="{}",num_pages="10"}} 1\n'
    part = _part(page.format(1), page.format(1), page.format(64))
    told = [(fact.raw, fact.at) for fact in part.facts if fact.key == "page_size"]
    assert told == [("1", 0), ("64", 20)]


def test_what_sglang_counts_by_step_comes_before_what_it_counts_by_request() -> None:
    part = _part(
        'sglang:generation_tokens_total 100\nsglang:cached_tokens_total{cache_source="total"} 9\n'
        'sglang:realtime_tokens_total{mode="decode"} 140\n'
        'sglang:realtime_tokens_total{mode="prefill_compute"} 50\n'
    )
    assert _only(part, Signal.GENERATION_TOKENS).last.value == 140
    assert _only(part, Signal.COMPUTED_PROMPT_TOKENS).last.value == 50


def test_a_total_that_stands_among_its_parts_is_not_added() -> None:
    part = _part(
        'sglang:cached_tokens_total{cache_source="device"} 70\n'
        'sglang:cached_tokens_total{cache_source="host"} 20\n'
        'sglang:cached_tokens_total{cache_source="total"} 90\n'
    )
    assert _only(part, Signal.CACHED_PROMPT_TOKENS).last.value == 90


def test_units_are_those_of_the_signal() -> None:
    part = _part(
        'sglang:kv_transfer_latency_ms_bucket{le="250"} 3\n'
        'sglang:kv_transfer_latency_ms_bucket{le="+Inf"} 4\n'
        "sglang:kv_transfer_latency_ms_sum 1200\nsglang:kv_transfer_latency_ms_count 4\n"
        "DCGM_FI_DEV_GPU_UTIL 37\nDCGM_FI_DEV_FB_USED 1024\n"
    )
    (transfer,) = part.histograms
    assert transfer.observed.bounds == (0.25, math.inf)
    assert transfer.mean == 0.3
    assert _only(part, Signal.DEVICE_USAGE).last.value == 0.37
    assert _only(part, Signal.DEVICE_MEMORY_USED).last.value == 1024**3


def test_usage_is_computed_where_an_engine_does_not_tell_it() -> None:
    part = _part("tgi_batch_current_max_tokens 3000\ntgi_batch_max_total_tokens 12000\n")
    assert _only(part, Signal.KV_USAGE).last.value == 0.25
    ours = _part(
        "pilothouse_replica_kv_blocks 256\npilothouse_replica_kv_blocks_referenced 64\n"
        "pilothouse_replica_kv_blocks_free 3\n"
    )
    assert _only(ours, Signal.KV_USAGE).last.value == 0.25


def test_a_quantity_that_stands_in_a_label_is_told_by_it() -> None:
    part = _part(
        'nv_trt_llm_request_metrics{model="x",request_type="waiting"} 4\n'
        'nv_trt_llm_request_metrics{model="x",request_type="scheduled"} 9\n'
    )
    assert _only(part, Signal.WAITING).last.value == 4
    assert _only(part, Signal.RUNNING).last.value == 9


def test_replicas_and_models_stay_apart_and_need_no_label_where_there_is_one() -> None:
    page = (
        'vllm:num_requests_running{model_name="a"} 1\nvllm:num_requests_running{model_name="b"} 2\n'
    )
    part = series_of(
        [
            Snapshot(at=0, text=page, labels={"replica": "x"}),
            Snapshot(at=0, text=page, labels={"replica": "y"}),
        ]
    )
    found = {(each.labels["replica"], each.labels["model"]) for each in part.series}
    assert found == {("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")}


def test_names_that_a_collector_changed_are_still_known() -> None:
    part = _part("ray_vllm_num_requests_waiting 4\nvllm_generation_tokens 7\n")
    waiting = _only(part, Signal.WAITING)
    assert waiting.origin.name == "ray_vllm_num_requests_waiting"
    assert _only(part, Signal.GENERATION_TOKENS).last.value == 7


def test_endings_that_are_no_answers_are_told_apart() -> None:
    part = _part(
        'vllm:request_success_total{finished_reason="stop"} 5\n'
        'vllm:request_success_total{finished_reason="length"} 6\n'
        'vllm:request_success_total{finished_reason="abort"} 7\n'
    )
    of_tgi = _part(
        'tgi_request_failure{err="overloaded"} 3\ntgi_request_failure{err="generation"} 2\n'
    )
    finished = {each.labels["reason"]: each.last.value for each in part.series
                if each.signal is Signal.FINISHED}  # fmt: skip
    assert finished == {"stop": 5, "length": 6}
    assert _only(part, Signal.ABORTED).last.value == 7
    assert _only(of_tgi, Signal.REJECTED).labels == {"reason": "overloaded"}
    assert _only(of_tgi, Signal.FAILED).last.value == 2


def test_all_names_are_kept_known_or_not() -> None:
    part = _part("llamacpp:requests_processing 4\nsomething_else 1\n")
    assert part.exported_names == {"llamacpp:requests_processing", "something_else"}


def test_a_bucket_whose_bound_is_no_number_is_left_out() -> None:
    part = _part(
        'vllm:time_to_first_token_seconds_bucket{le="much"} 3\n'
        'vllm:time_to_first_token_seconds_bucket{le="NaN"} 3\n'
        "vllm:time_to_first_token_seconds_bucket 3\n"
        'vllm:time_to_first_token_seconds_bucket{le="1"} 2\n'
        "vllm:time_to_first_token_seconds_count 4\n"
    )
    (ttft,) = part.histograms
    assert list(ttft.readings[0].bounds) == [1, math.inf]
    assert list(ttft.readings[0].counts) == [2, 4]


def test_two_engines_under_one_address_are_told_and_never_added() -> None:
    vllm = "vllm:num_requests_running 5\nvllm:num_requests_waiting 1\n"
    other = "llamacpp:requests_processing 1\n"
    for pages in ((vllm + other, vllm + other), (vllm, other, vllm)):
        part = _part(*pages)
        assert part.engine == EngineName(name="vllm")
        assert _only(part, Signal.RUNNING).values == (5.0, 5.0)
        (doubt,) = [each for each in part.doubts if each.kind is DoubtKind.SEVERAL_ENGINES]
        assert "vllm and of llama.cpp" in doubt.what


def test_our_own_gateway_and_control_plane_are_no_engines_and_stand_behind_one() -> None:
    gateway = _part(f'{names.GATEWAY_REQUESTS}{{state="active"}} 3\n')
    control_plane = _part(f"{names.CONTROLPLANE_SNAPSHOT_VERSION} 3\n")
    assert gateway.engine == EngineName(name="pilothouse gateway")
    assert control_plane.engine == EngineName(name="pilothouse control plane")
    engine = _part("vllm:num_requests_running 5\n")
    assert join([gateway, control_plane, engine]).engine == EngineName(name="vllm")
    (need, *_) = asked(join([gateway]))
    assert "this is the gateway of Pilothouse" in need
