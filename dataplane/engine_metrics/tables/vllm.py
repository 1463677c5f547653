"""vLLM, V0 and V1. Sources: `vllm/v1/metrics/loggers.py` of 0.32, the deprecation notes of its
releases, and its older `vllm/engine/metrics.py`."""

from dataplane.engine_metrics.alias import Alias, AliasTable, InfoAlias
from dataplane.engine_metrics.signal import Signal

_COMPUTED = frozenset({"local_compute", "compute", "computed"})
_ABORT = frozenset({"abort"})
_ERROR = frozenset({"error"})
_AWAKE = frozenset({"awake"})

_STATE = (
    # Both keep their last value when the engine stops stepping.
    Alias("vllm:num_requests_running", Signal.RUNNING),
    Alias("vllm:num_requests_waiting", Signal.WAITING),
    Alias(
        "vllm:num_requests_waiting_by_reason",
        Signal.WAITING_BY_REASON,
        keep={"reason": "reason"},
    ),
    Alias("vllm:num_requests_swapped", Signal.SWAPPED, until="0.8"),
    # Ratios of 0 to 1, whatever their names say.
    Alias("vllm:kv_cache_usage_perc", Signal.KV_USAGE),
    Alias("vllm:gpu_cache_usage_perc", Signal.KV_USAGE, until="0.9"),
    Alias("vllm:cpu_cache_usage_perc", Signal.HOST_KV_USAGE, until="0.8"),
    Alias("vllm:num_preemptions_total", Signal.PREEMPTIONS),
    Alias("vllm:request_num_preemptions", Signal.REQUEST_PREEMPTIONS),
    # A histogram, though its name ends like a counter's; its count is that of steps.
    Alias("vllm:iteration_tokens_total", Signal.STEP_TOKENS),
    Alias("vllm:engine_sleep_state", Signal.SLEEPING, without={"sleep_state": _AWAKE}),
    # Only with --enable-fault-tolerance.
    Alias("vllm:engine_healthy", Signal.ENGINE_HEALTHY),
    Alias("vllm:corrupted_requests_total", Signal.CORRUPTED),
)

_TOKENS = (
    # Cached tokens and the prompts of aborted requests count.
    Alias("vllm:prompt_tokens_total", Signal.PROMPT_TOKENS),
    Alias(
        "vllm:prompt_tokens_by_source_total",
        Signal.COMPUTED_PROMPT_TOKENS,
        only={"source": _COMPUTED},
    ),
    Alias("vllm:prompt_tokens_cached_total", Signal.CACHED_PROMPT_TOKENS),
    Alias(
        "vllm:prompt_tokens_by_source_total",
        Signal.CACHED_PROMPT_TOKENS,
        without={"source": _COMPUTED},
    ),
    Alias("vllm:generation_tokens_total", Signal.GENERATION_TOKENS),
    Alias("vllm:avg_prompt_throughput_toks_per_s", Signal.PROMPT_RATE, until="0.7"),
    Alias("vllm:avg_generation_throughput_toks_per_s", Signal.GENERATION_RATE, until="0.7"),
)

_CACHE = (
    Alias("vllm:prefix_cache_queries_total", Signal.PREFIX_QUERIES),
    Alias("vllm:gpu_prefix_cache_queries_total", Signal.PREFIX_QUERIES, until="0.9"),
    Alias("vllm:prefix_cache_hits_total", Signal.PREFIX_HITS),
    Alias("vllm:gpu_prefix_cache_hits_total", Signal.PREFIX_HITS, until="0.9"),
    Alias("vllm:gpu_prefix_cache_hit_rate", Signal.HIT_RATE, until="0.8"),
    Alias("vllm:external_prefix_cache_queries_total", Signal.EXTERNAL_PREFIX_QUERIES),
    Alias("vllm:external_prefix_cache_hits_total", Signal.EXTERNAL_PREFIX_HITS),
    # Sampled, and only with --kv-cache-metrics.
    Alias("vllm:kv_block_lifetime_seconds", Signal.KV_BLOCK_LIFETIME),
    Alias("vllm:kv_block_idle_before_evict_seconds", Signal.KV_BLOCK_IDLE),
    Alias("vllm:kv_block_reuse_gap_seconds", Signal.KV_BLOCK_REUSE_GAP),
)

_REQUESTS = (
    # abort stays 0 up to builds of 2026-09 at least.
    Alias(
        "vllm:request_success_total",
        Signal.FINISHED,
        without={"finished_reason": _ABORT | _ERROR},
        keep={"finished_reason": "reason"},
    ),
    Alias("vllm:request_success_total", Signal.ABORTED, only={"finished_reason": _ABORT}),
    Alias("vllm:request_success_total", Signal.FAILED, only={"finished_reason": _ERROR}),
    Alias("vllm:admission_rejections_total", Signal.REJECTED, keep={"reason": "reason"}),
    # Begins at the front end, before the prompt is tokenized.
    Alias("vllm:time_to_first_token_seconds", Signal.TTFT),
    Alias("vllm:inter_token_latency_seconds", Signal.ITL),
    Alias("vllm:time_per_output_token_seconds", Signal.ITL, until="0.11"),
    Alias("vllm:request_time_per_output_token_seconds", Signal.TPOT),
    # Observed when a request finishes; its buckets begin at 0.3 s.
    Alias("vllm:e2e_request_latency_seconds", Signal.E2E),
    Alias("vllm:request_queue_time_seconds", Signal.QUEUE_TIME),
    Alias("vllm:time_in_queue_requests", Signal.QUEUE_TIME, until="0.8"),
    Alias("vllm:request_prefill_time_seconds", Signal.PREFILL_TIME),
    Alias("vllm:request_decode_time_seconds", Signal.DECODE_TIME),
    Alias("vllm:request_prompt_tokens", Signal.PROMPT_LENGTH),
    Alias("vllm:request_prefill_kv_computed_tokens", Signal.COMPUTED_LENGTH),
    Alias("vllm:request_generation_tokens", Signal.OUTPUT_LENGTH),
)

_SPECULATION = (
    Alias("vllm:spec_decode_num_drafts_total", Signal.DRAFTS),
    Alias("vllm:spec_decode_num_draft_tokens_total", Signal.DRAFT_TOKENS),
    Alias("vllm:spec_decode_num_accepted_tokens_total", Signal.ACCEPTED_TOKENS),
    Alias(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        Signal.ACCEPTED_BY_POSITION,
        keep={"position": "position"},
    ),
    # V0 counted tokens after a wrong one too.
    Alias("vllm:spec_decode_draft_acceptance_rate", Signal.ACCEPTANCE_RATE, until="0.8"),
)

_TRANSFERS = (
    Alias("vllm:nixl_xfer_time_seconds", Signal.TRANSFER_TIME),
    Alias("vllm:nixl_bytes_transferred", Signal.TRANSFER_SIZE),
    Alias("vllm:nixl_num_failed_transfers_total", Signal.TRANSFER_FAILURES),
)

VLLM = AliasTable(
    engine="vllm",
    prefixes=("vllm:",),
    aliases=(*_STATE, *_TOKENS, *_CACHE, *_REQUESTS, *_SPECULATION, *_TRANSFERS),
    infos=(
        InfoAlias(
            exported="vllm:cache_config_info",
            signals={
                "block_size": Signal.KV_BLOCK_SIZE,
                "num_gpu_blocks": Signal.KV_BLOCKS,
                "kv_cache_size_tokens": Signal.KV_CAPACITY,
            },
        ),
    ),
    unread=(
        "vllm:num_requests_kv_fetch_by_stage",
        "vllm:mm_cache_queries_total",  # items, not tokens
        "vllm:mm_cache_hits_total",
        "vllm:request_inference_time_seconds",
        "vllm:lora_requests_info",  # its value is a unix time
        "vllm:nixl_num_kv_expired_reqs_total",  # nobody came for the KV that was kept for them
    ),
    rank_labels=("engine",),
    expected=frozenset(
        {
            Signal.RUNNING,
            Signal.WAITING,
            Signal.KV_USAGE,
            Signal.PREEMPTIONS,
            Signal.PROMPT_TOKENS,
            Signal.GENERATION_TOKENS,
            Signal.TTFT,
        }
    ),
    whole_from=16,
)
