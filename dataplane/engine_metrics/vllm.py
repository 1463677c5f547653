"""vLLM's series, of V0 and V1. Sources: `vllm/v1/metrics/loggers.py` of 0.32, the deprecation
notes of its releases, and its older `vllm/engine/metrics.py`."""

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.prefixed import Prefixed
from dataplane.engine_metrics.series import EngineVocabulary, Unit

_of = Prefixed("vllm:")
_PERCENT_TRAP = "a ratio of 0 to 1, whatever its name says"

VLLM = EngineVocabulary(
    engine="vllm",
    prefix="vllm:",
    parallel_labels=("engine",),
    series=(
        _of.gauge(
            signals.RUNNING,
            "num_requests_running",
            Unit.REQUESTS,
            trap="keeps its last value when the engine stops stepping",
        ),
        _of.gauge(
            signals.WAITING,
            "num_requests_waiting",
            Unit.REQUESTS,
            trap="keeps its last value when the engine stops stepping",
        ),
        _of.gauge(
            signals.WAITING_BY_REASON, "num_requests_waiting_by_reason", Unit.REQUESTS, by="reason"
        ),
        _of.gauge(
            signals.KV_FETCH_BY_STAGE, "num_requests_kv_fetch_by_stage", Unit.REQUESTS, by="stage"
        ),
        _of.gauge(signals.SWAPPED, "num_requests_swapped", Unit.REQUESTS, until="0.8"),
        _of.gauge(signals.KV_USED_RATIO, "kv_cache_usage_perc", Unit.RATIO, trap=_PERCENT_TRAP),
        _of.gauge(
            signals.KV_USED_RATIO,
            "gpu_cache_usage_perc",
            Unit.RATIO,
            until="0.9",
            trap=_PERCENT_TRAP,
        ),
        _of.gauge(
            signals.KV_HOST_USED_RATIO,
            "cpu_cache_usage_perc",
            Unit.RATIO,
            until="0.8",
            trap=_PERCENT_TRAP,
        ),
        _of.info(signals.KV_CONFIG, "cache_config_info"),
        _of.counter(signals.PREEMPTIONS, "num_preemptions", Unit.REQUESTS),
        _of.histogram(signals.REQUEST_PREEMPTIONS, "request_num_preemptions", Unit.REQUESTS),
        _of.histogram(
            signals.STEP_TOKENS,
            "iteration_tokens_total",
            Unit.TOKENS,
            trap="a histogram, though its name ends like a counter's; its count is that of steps",
        ),
        _of.counter(
            signals.PROMPT_TOKENS,
            "prompt_tokens",
            Unit.TOKENS,
            trap="cached tokens and the prompts of aborted requests count",
        ),
        _of.counter(
            signals.PROMPT_TOKENS_BY_SOURCE, "prompt_tokens_by_source", Unit.TOKENS, by="source"
        ),
        _of.counter(signals.PROMPT_TOKENS_CACHED, "prompt_tokens_cached", Unit.TOKENS),
        _of.counter(signals.GENERATION_TOKENS, "generation_tokens", Unit.TOKENS),
        _of.gauge(
            signals.PROMPT_RATE,
            "avg_prompt_throughput_toks_per_s",
            Unit.TOKENS_PER_SECOND,
            until="0.7",
        ),
        _of.gauge(
            signals.GENERATION_RATE,
            "avg_generation_throughput_toks_per_s",
            Unit.TOKENS_PER_SECOND,
            until="0.7",
        ),
        _of.counter(signals.PREFIX_QUERIES, "prefix_cache_queries", Unit.TOKENS),
        _of.counter(signals.PREFIX_QUERIES, "gpu_prefix_cache_queries", Unit.TOKENS, until="0.9"),
        _of.counter(signals.PREFIX_HITS, "prefix_cache_hits", Unit.TOKENS),
        _of.counter(signals.PREFIX_HITS, "gpu_prefix_cache_hits", Unit.TOKENS, until="0.9"),
        _of.gauge(signals.PREFIX_HIT_RATIO, "gpu_prefix_cache_hit_rate", Unit.RATIO, until="0.8"),
        _of.counter(signals.EXTERNAL_PREFIX_QUERIES, "external_prefix_cache_queries", Unit.TOKENS),
        _of.counter(signals.EXTERNAL_PREFIX_HITS, "external_prefix_cache_hits", Unit.TOKENS),
        _of.counter(
            signals.MULTIMODAL_QUERIES, "mm_cache_queries", Unit.ITEMS, trap="items, not tokens"
        ),
        _of.counter(signals.MULTIMODAL_HITS, "mm_cache_hits", Unit.ITEMS, trap="items, not tokens"),
        _of.histogram(
            signals.KV_BLOCK_LIFETIME,
            "kv_block_lifetime_seconds",
            Unit.SECONDS,
            trap="sampled, and only with --kv-cache-metrics",
        ),
        _of.histogram(signals.KV_BLOCK_IDLE, "kv_block_idle_before_evict_seconds", Unit.SECONDS),
        _of.histogram(signals.KV_BLOCK_REUSE_GAP, "kv_block_reuse_gap_seconds", Unit.SECONDS),
        _of.counter(
            signals.FINISHED,
            "request_success",
            Unit.REQUESTS,
            by="finished_reason",
            trap="abort stays 0 up to builds of 2026-09 at least",
        ),
        _of.counter(signals.REJECTED, "admission_rejections", Unit.REQUESTS, by="reason"),
        _of.histogram(
            signals.TTFT,
            "time_to_first_token_seconds",
            Unit.SECONDS,
            trap="begins at the front end, before the prompt is tokenized",
        ),
        _of.histogram(signals.ITL, "inter_token_latency_seconds", Unit.SECONDS),
        _of.histogram(signals.ITL, "time_per_output_token_seconds", Unit.SECONDS, until="0.11"),
        _of.histogram(signals.TPOT, "request_time_per_output_token_seconds", Unit.SECONDS),
        _of.histogram(
            signals.E2E,
            "e2e_request_latency_seconds",
            Unit.SECONDS,
            trap="observed when a request finishes; its buckets begin at 0.3 s",
        ),
        _of.histogram(signals.QUEUE_TIME, "request_queue_time_seconds", Unit.SECONDS),
        _of.histogram(signals.QUEUE_TIME, "time_in_queue_requests", Unit.SECONDS, until="0.8"),
        _of.histogram(signals.PREFILL_TIME, "request_prefill_time_seconds", Unit.SECONDS),
        _of.histogram(signals.DECODE_TIME, "request_decode_time_seconds", Unit.SECONDS),
        _of.histogram(signals.INFERENCE_TIME, "request_inference_time_seconds", Unit.SECONDS),
        _of.histogram(signals.REQUEST_PROMPT_TOKENS, "request_prompt_tokens", Unit.TOKENS),
        _of.histogram(
            signals.REQUEST_UNCACHED_PROMPT_TOKENS,
            "request_prefill_kv_computed_tokens",
            Unit.TOKENS,
        ),
        _of.histogram(signals.REQUEST_GENERATION_TOKENS, "request_generation_tokens", Unit.TOKENS),
        _of.counter(signals.SPEC_DRAFTS, "spec_decode_num_drafts", Unit.STEPS),
        _of.counter(signals.SPEC_DRAFTED_TOKENS, "spec_decode_num_draft_tokens", Unit.TOKENS),
        _of.counter(signals.SPEC_ACCEPTED_TOKENS, "spec_decode_num_accepted_tokens", Unit.TOKENS),
        _of.counter(
            signals.SPEC_ACCEPTED_BY_POSITION,
            "spec_decode_num_accepted_tokens_per_pos",
            Unit.TOKENS,
            by="position",
        ),
        _of.gauge(
            signals.SPEC_ACCEPT_RATIO,
            "spec_decode_draft_acceptance_rate",
            Unit.RATIO,
            until="0.8",
            trap="V0 counted tokens after a wrong one too",
        ),
        _of.gauge(signals.SLEEP_STATE, "engine_sleep_state", Unit.NONE, by="sleep_state"),
        _of.info(signals.LORA, "lora_requests_info", trap="its value is a unix time"),
        _of.gauge(
            signals.ENGINE_HEALTHY,
            "engine_healthy",
            Unit.NONE,
            trap="only with --enable-fault-tolerance",
        ),
        _of.counter(signals.CORRUPTED, "corrupted_requests", Unit.REQUESTS),
        _of.histogram(signals.TRANSFER_SECONDS, "nixl_xfer_time_seconds", Unit.SECONDS),
        _of.histogram(signals.TRANSFER_BYTES, "nixl_bytes_transferred", Unit.BYTES),
        _of.counter(signals.TRANSFERS_FAILED, "nixl_num_failed_transfers", Unit.REQUESTS),
        _of.counter(signals.TRANSFERS_EXPIRED, "nixl_num_kv_expired_reqs", Unit.REQUESTS),
    ),
)
