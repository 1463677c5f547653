"""SGLang's series, which it exports with --enable-metrics. Source: its public documentation and
`srt/observability/metrics_collector.py`."""

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.prefixed import Prefixed
from dataplane.engine_metrics.series import EngineVocabulary, Unit

_of = Prefixed("sglang:")
_GIGABYTES = 1e9
_MEGABYTES = 1e6
_MILLISECONDS = 1e-3
_PERCENT = 1e-2

SGLANG = EngineVocabulary(
    engine="sglang",
    prefix="sglang:",
    parallel_labels=("dp_rank",),
    copy_labels=("tp_rank", "pp_rank", "moe_ep_rank"),
    total_labels=("priority",),
    series=(
        _of.gauge(signals.RUNNING, "num_running_reqs", Unit.REQUESTS),
        _of.gauge(signals.WAITING, "num_queue_reqs", Unit.REQUESTS),
        _of.gauge(signals.PAUSED, "num_paused_reqs", Unit.REQUESTS),
        _of.gauge(signals.GRAMMAR_QUEUE, "num_grammar_queue_reqs", Unit.REQUESTS),
        _of.gauge(signals.PREFILL_QUEUE, "num_prefill_bootstrap_queue_reqs", Unit.REQUESTS),
        _of.gauge(signals.DECODE_QUEUE, "num_decode_prealloc_queue_reqs", Unit.REQUESTS),
        _of.gauge(signals.TRANSFER_QUEUE, "num_decode_transfer_queue_reqs", Unit.REQUESTS),
        _of.gauge(signals.TRANSFER_QUEUE, "num_prefill_inflight_queue_reqs", Unit.REQUESTS),
        _of.gauge(
            signals.KV_USED_RATIO,
            "token_usage",
            Unit.RATIO,
            trap="the largest of its pools; cached tokens that could be evicted do not count",
        ),
        _of.gauge(signals.KV_USED_RATIO, "full_token_usage", Unit.RATIO),
        _of.gauge(signals.KV_CAPACITY_TOKENS, "max_total_num_tokens", Unit.TOKENS),
        _of.gauge(signals.KV_USED_TOKENS, "kv_used_tokens", Unit.TOKENS),
        _of.gauge(signals.KV_USED_TOKENS, "num_used_tokens", Unit.TOKENS),
        _of.gauge(signals.KV_AVAILABLE_TOKENS, "kv_available_tokens", Unit.TOKENS),
        _of.gauge(signals.KV_EVICTABLE_TOKENS, "kv_evictable_tokens", Unit.TOKENS),
        _of.info(signals.KV_CONFIG, "cache_config_info"),
        _of.gauge(signals.BLOCK_SIZE, "page_size", Unit.TOKENS),
        _of.gauge(signals.NUM_BLOCKS, "num_pages", Unit.BLOCKS),
        _of.counter(signals.PREEMPTIONS, "num_retracted_requests", Unit.REQUESTS),
        _of.gauge(
            signals.PREEMPTIONS,
            "num_retracted_reqs",
            Unit.REQUESTS,
            until="0.5",
            trap="a gauge of the last retraction, not a count of all",
        ),
        _of.counter(signals.RETRACTED_INPUT_TOKENS, "num_retracted_input_tokens", Unit.TOKENS),
        _of.counter(signals.RETRACTED_OUTPUT_TOKENS, "num_retracted_output_tokens", Unit.TOKENS),
        _of.gauge(
            signals.NEW_TOKEN_RATIO,
            "new_token_ratio",
            Unit.RATIO,
            trap="how cautiously it admits; rises after a retraction",
        ),
        _of.counter(
            signals.PROMPT_TOKENS, "prompt_tokens", Unit.TOKENS, trap="of finished requests only"
        ),
        _of.counter(
            signals.GENERATION_TOKENS,
            "generation_tokens",
            Unit.TOKENS,
            trap="of finished requests only",
        ),
        _of.counter(
            signals.PROMPT_TOKENS_BY_SOURCE, "prefill_effective_tokens", Unit.TOKENS, by="mode"
        ),
        _of.counter(signals.WORK_TOKENS, "realtime_tokens", Unit.TOKENS, by="mode"),
        _of.counter(
            signals.PROMPT_TOKENS_CACHED,
            "cached_tokens",
            Unit.TOKENS,
            by="cache_source",
            trap="its source `total` is the sum of the others",
        ),
        _of.gauge(
            signals.PREFIX_HIT_RATIO,
            "cache_hit_rate",
            Unit.RATIO,
            trap="of the last prefill batch only",
        ),
        _of.gauge(signals.GENERATION_RATE, "gen_throughput", Unit.TOKENS_PER_SECOND),
        _of.counter(signals.FINISHED, "num_requests", Unit.REQUESTS),
        _of.counter(signals.ABORTED, "num_aborted_requests", Unit.REQUESTS),
        _of.histogram(
            signals.TTFT,
            "time_to_first_token_seconds",
            Unit.SECONDS,
            trap="its buckets begin at 0.1 s",
        ),
        _of.histogram(signals.ITL, "inter_token_latency_seconds", Unit.SECONDS),
        _of.histogram(signals.E2E, "e2e_request_latency_seconds", Unit.SECONDS),
        _of.histogram(signals.QUEUE_TIME, "queue_time_seconds", Unit.SECONDS),
        _of.histogram(
            signals.STAGE_TIME, "per_stage_req_latency_seconds", Unit.SECONDS, by="stage"
        ),
        _of.histogram(signals.REQUEST_PROMPT_TOKENS, "prompt_tokens_histogram", Unit.TOKENS),
        _of.histogram(
            signals.REQUEST_UNCACHED_PROMPT_TOKENS,
            "uncached_prompt_tokens_histogram",
            Unit.TOKENS,
        ),
        _of.histogram(
            signals.REQUEST_GENERATION_TOKENS, "generation_tokens_histogram", Unit.TOKENS
        ),
        _of.gauge(signals.SPEC_ACCEPT_LENGTH, "spec_accept_length", Unit.TOKENS),
        _of.gauge(signals.SPEC_ACCEPT_RATIO, "spec_accept_rate", Unit.RATIO),
        _of.gauge(signals.LORA_SLOTS_USED_RATIO, "lora_pool_utilization", Unit.RATIO),
        _of.gauge(signals.KV_HOST_USED_TOKENS, "hicache_host_used_tokens", Unit.TOKENS),
        _of.gauge(
            signals.FORWARD_RATIO,
            "fwd_occupancy",
            Unit.RATIO,
            factor=_PERCENT,
            trap="NaN unless SGLANG_ENABLE_METRICS_DEVICE_TIMER is set, and at each window's edge",
        ),
        _of.gauge(signals.IS_GRAPH, "is_cuda_graph", Unit.NONE),
        _of.counter(signals.GRAPH_PASSES, "cuda_graph_passes", Unit.STEPS, by="mode"),
        _of.gauge(signals.WEIGHT_BYTES, "weight_memory_usage_gb", Unit.BYTES, factor=_GIGABYTES),
        _of.gauge(signals.KV_BYTES, "kv_cache_memory_usage_gb", Unit.BYTES, factor=_GIGABYTES),
        _of.gauge(
            signals.GRAPH_BYTES, "graph_memory_usage_gb", Unit.BYTES, factor=_GIGABYTES, by="phase"
        ),
        _of.gauge(
            signals.FREE_BYTES_AT_START,
            "startup_available_gpu_memory_gb",
            Unit.BYTES,
            factor=_GIGABYTES,
        ),
        _of.gauge(signals.START_SECONDS, "startup_time_seconds", Unit.SECONDS, by="phase"),
        _of.histogram(
            signals.TRANSFER_RATE,
            "kv_transfer_speed_gb_s",
            Unit.BYTES_PER_SECOND,
            factor=_GIGABYTES,
        ),
        _of.histogram(
            signals.TRANSFER_SECONDS,
            "kv_transfer_latency_ms",
            Unit.SECONDS,
            factor=_MILLISECONDS,
        ),
        _of.histogram(
            signals.TRANSFER_BYTES, "kv_transfer_total_mb", Unit.BYTES, factor=_MEGABYTES
        ),
        _of.counter(signals.TRANSFERS_FAILED, "num_transfer_failed_reqs", Unit.REQUESTS),
    ),
)
