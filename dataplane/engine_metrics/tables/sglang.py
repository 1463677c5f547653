"""SGLang, which exports with --enable-metrics. Sources: its public documentation and
`srt/observability/metrics_collector.py`.

What it counts by step comes before what it counts by finished request: while long answers run, the
latter stands still."""

from dataplane.engine_metrics.alias import Alias, AliasTable, FactAlias, InfoAlias
from dataplane.engine_metrics.signal import Signal

_MEGABYTES = 1e6
_MILLISECONDS = 1e-3
_PERCENT = 0.01
"""It rounds shares to two digits before it exports them."""
_INPUT = frozenset({"input"})
_TOTAL = frozenset({"total"})

_STATE = (
    Alias("sglang:num_running_reqs", Signal.RUNNING),
    Alias("sglang:num_queue_reqs", Signal.WAITING),
    Alias("sglang:num_paused_reqs", Signal.PAUSED),
    # The largest of its pools; cached tokens that could be evicted do not count.
    Alias("sglang:token_usage", Signal.KV_USAGE, resolution=_PERCENT),
    Alias("sglang:full_token_usage", Signal.KV_USAGE, resolution=_PERCENT),
    Alias(
        "sglang:full_token_usage",
        Signal.POOL_USAGE,
        fixed={"pool": "full"},
        resolution=_PERCENT,
    ),
    Alias("sglang:swa_token_usage", Signal.POOL_USAGE, fixed={"pool": "swa"}, resolution=_PERCENT),
    Alias("sglang:mamba_usage", Signal.POOL_USAGE, fixed={"pool": "mamba"}, resolution=_PERCENT),
    Alias("sglang:max_total_num_tokens", Signal.KV_CAPACITY),
    Alias("sglang:kv_used_tokens", Signal.CONTEXT_TOKENS),
    Alias("sglang:num_used_tokens", Signal.CONTEXT_TOKENS),
    Alias("sglang:kv_available_tokens", Signal.KV_AVAILABLE),
    Alias("sglang:kv_evictable_tokens", Signal.KV_EVICTABLE),
    Alias("sglang:page_size", Signal.KV_BLOCK_SIZE),
    Alias("sglang:num_pages", Signal.KV_BLOCKS),
    Alias("sglang:num_retracted_requests_total", Signal.PREEMPTIONS),
    # A gauge of the last retraction, not a count of all.
    Alias(
        "sglang:num_retracted_reqs",
        Signal.LAST_RETRACTED,
        until="0.5",
        instead="sglang:num_retracted_requests_total",
    ),
    Alias(
        "sglang:num_retracted_input_tokens_total",
        Signal.RETRACTED_TOKENS,
        fixed={"kind": "input"},
    ),
    Alias(
        "sglang:num_retracted_output_tokens_total",
        Signal.RETRACTED_TOKENS,
        fixed={"kind": "output"},
    ),
    Alias("sglang:new_token_ratio", Signal.NEW_TOKEN_RATIO),
    Alias("sglang:is_cuda_graph", Signal.CUDA_GRAPH),
    Alias("sglang:cuda_graph_passes_total", Signal.GRAPH_PASSES, keep={"mode": "mode"}),
)


def _work(mode: str, signal: Signal) -> Alias:
    return Alias("sglang:realtime_tokens_total", signal, only={"mode": frozenset({mode})})


_TOKENS = (
    Alias("sglang:prompt_tokens_total", Signal.PROMPT_TOKENS),  # of finished requests only
    _work("prefill_compute", Signal.COMPUTED_PROMPT_TOKENS),
    Alias(
        "sglang:prefill_effective_tokens_total",
        Signal.COMPUTED_PROMPT_TOKENS,
        only={"mode": _INPUT},
    ),
    _work("prefill_cache", Signal.CACHED_PROMPT_TOKENS),
    Alias(
        "sglang:prefill_effective_tokens_total",
        Signal.CACHED_PROMPT_TOKENS,
        without={"mode": _INPUT},
    ),
    # Its source `total` is the sum of the others.
    Alias(
        "sglang:cached_tokens_total",
        Signal.CACHED_PROMPT_TOKENS,
        without={"cache_source": _TOTAL},
    ),
    _work("decode", Signal.GENERATION_TOKENS),
    Alias("sglang:generation_tokens_total", Signal.GENERATION_TOKENS),  # of finished requests only
    Alias("sglang:cache_hit_rate", Signal.HIT_RATE),  # of the last prefill batch only
    Alias("sglang:gen_throughput", Signal.GENERATION_RATE),
)

_REQUESTS = (
    Alias("sglang:num_requests_total", Signal.FINISHED),
    Alias("sglang:num_aborted_requests_total", Signal.ABORTED),
    Alias("sglang:time_to_first_token_seconds", Signal.TTFT),  # its buckets begin at 0.1 s
    Alias("sglang:inter_token_latency_seconds", Signal.ITL),
    Alias("sglang:e2e_request_latency_seconds", Signal.E2E),
    Alias("sglang:queue_time_seconds", Signal.QUEUE_TIME),
    Alias(
        "sglang:per_stage_req_latency_seconds",
        Signal.PREFILL_TIME,
        only={"stage": frozenset({"prefill_forward"})},
    ),
    Alias("sglang:per_stage_req_latency_seconds", Signal.STAGE_TIME, keep={"stage": "stage"}),
    Alias("sglang:prompt_tokens_histogram", Signal.PROMPT_LENGTH),
    Alias("sglang:uncached_prompt_tokens_histogram", Signal.COMPUTED_LENGTH),
    Alias("sglang:generation_tokens_histogram", Signal.OUTPUT_LENGTH),
    Alias("sglang:spec_accept_length", Signal.ACCEPTANCE_LENGTH),
    Alias("sglang:spec_accept_rate", Signal.ACCEPTANCE_RATE),
    Alias("sglang:spec_num_draft_tokens", Signal.SPECULATED_TOKENS),
)

_APART = (
    # Where prefill and decode are served by workers of their own.
    Alias("sglang:num_prefill_bootstrap_queue_reqs", Signal.PREFILL_QUEUE),
    Alias("sglang:num_decode_prealloc_queue_reqs", Signal.DECODE_QUEUE),
    Alias("sglang:num_decode_transfer_queue_reqs", Signal.TRANSFER_QUEUE),
    Alias("sglang:num_prefill_inflight_queue_reqs", Signal.TRANSFER_QUEUE),
    Alias("sglang:kv_transfer_latency_ms", Signal.TRANSFER_TIME, factor=_MILLISECONDS),
    Alias("sglang:kv_transfer_total_mb", Signal.TRANSFER_SIZE, factor=_MEGABYTES),
    Alias("sglang:num_transfer_failed_reqs_total", Signal.TRANSFER_FAILURES),
)

SGLANG = AliasTable(
    engine="sglang",
    prefixes=("sglang:",),
    aliases=(*_STATE, *_TOKENS, *_REQUESTS, *_APART),
    infos=(
        InfoAlias(
            exported="sglang:cache_config_info",
            signals={
                "page_size": Signal.KV_BLOCK_SIZE,
                "block_size": Signal.KV_BLOCK_SIZE,
                "num_pages": Signal.KV_BLOCKS,
                "num_gpu_blocks": Signal.KV_BLOCKS,
            },
        ),
    ),
    facts=(
        FactAlias(exported="sglang:weight_memory_usage_gb"),
        FactAlias(exported="sglang:kv_cache_memory_usage_gb"),
        FactAlias(exported="sglang:startup_available_gpu_memory_gb"),
        FactAlias(exported="sglang:context_len"),
        FactAlias(exported="sglang:max_running_requests_under_SLO"),
        FactAlias(exported="sglang:graph_memory_usage_gb", keep=("phase",)),
        FactAlias(exported="sglang:startup_time_seconds", keep=("phase",)),
        FactAlias(exported="sglang:startup_cuda_graph_time_seconds", keep=("phase",)),
    ),
    unread=(
        "sglang:num_grammar_queue_reqs",
        "sglang:lora_pool_utilization",
        "sglang:hicache_host_used_tokens",
        # NaN unless SGLANG_ENABLE_METRICS_DEVICE_TIMER is set, and at each window's edge.
        "sglang:fwd_occupancy",
        "sglang:kv_transfer_speed_gb_s",
    ),
    rank_labels=("dp_rank",),
    copy_labels=("tp_rank", "pp_rank", "moe_ep_rank"),
    total_labels=("priority",),
    expected=frozenset({Signal.RUNNING, Signal.WAITING, Signal.KV_USAGE, Signal.GENERATION_TOKENS}),
    whole_from=12,
)
