"""TensorRT-LLM: `trtllm-serve`, and Triton's backend, which puts the quantity into a label."""

from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.signal import Signal

_SERVE = (
    ("num_requests_running", Signal.RUNNING),
    ("num_generation_requests", Signal.RUNNING),
    ("inflight_batch_size", Signal.RUNNING),
    ("num_requests_waiting", Signal.WAITING),
    ("num_paused_requests", Signal.PAUSED),
    ("max_num_active_requests", Signal.SEATS),
    ("kv_cache_utilization", Signal.KV_USAGE),
    ("kv_cache_host_utilization", Signal.HOST_KV_USAGE),
    ("kv_cache_hit_rate", Signal.HIT_RATE),
    ("kv_cache_max_blocks", Signal.KV_BLOCKS),
    ("kv_cache_free_blocks", Signal.KV_BLOCKS_FREE),
    ("kv_cache_tokens_per_block", Signal.KV_BLOCK_SIZE),
    ("prompt_tokens_total", Signal.PROMPT_TOKENS),
    ("prompt_cached_tokens_total", Signal.CACHED_PROMPT_TOKENS),
    ("prompt_cache_hit_tokens_total", Signal.CACHED_PROMPT_TOKENS),
    ("generation_tokens_total", Signal.GENERATION_TOKENS),
    ("num_requests_completed_total", Signal.FINISHED),
    ("request_success_total", Signal.FINISHED),
    ("request_error_total", Signal.FAILED),
    ("time_to_first_token_seconds", Signal.TTFT),
    ("time_per_output_token_seconds", Signal.TPOT),
    ("e2e_request_latency_seconds", Signal.E2E),
    ("request_queue_time_seconds", Signal.QUEUE_TIME),
    ("request_prefill_time_seconds", Signal.PREFILL_TIME),
    ("request_decode_time_seconds", Signal.DECODE_TIME),
    ("iteration_latency_seconds", Signal.STEP_TIME),
    ("spec_decode_drafted_tokens_total", Signal.DRAFT_TOKENS),
    ("spec_decode_accepted_tokens_total", Signal.ACCEPTED_TOKENS),
    ("spec_decode_acceptance_length", Signal.ACCEPTANCE_LENGTH),
    ("gpu_memory_usage_bytes", Signal.DEVICE_MEMORY_USED),
    ("cpu_memory_usage_bytes", Signal.HOST_MEMORY_USED),
)


def _labelled(exported: str, label: str, value: str, signal: Signal) -> Alias:
    return Alias(exported, signal, only={label: frozenset({value})})


_REQUESTS = "nv_trt_llm_request_metrics"
_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"

TRTLLM = AliasTable(
    engine="trtllm",
    prefixes=("trtllm_", "nv_trt_llm_"),
    aliases=(
        *(Alias(f"trtllm_{name}", signal) for name, signal in _SERVE),
        _labelled(_REQUESTS, "request_type", "scheduled", Signal.RUNNING),
        _labelled(_REQUESTS, "request_type", "waiting", Signal.WAITING),
        _labelled(_REQUESTS, "request_type", "max", Signal.SEATS),
        _labelled(_BLOCKS, "kv_cache_block_type", "fraction", Signal.KV_USAGE),
        _labelled(_BLOCKS, "kv_cache_block_type", "max", Signal.KV_BLOCKS),
        _labelled(_BLOCKS, "kv_cache_block_type", "free", Signal.KV_BLOCKS_FREE),
        _labelled(_BLOCKS, "kv_cache_block_type", "tokens_per", Signal.KV_BLOCK_SIZE),
    ),
    expected=frozenset({Signal.RUNNING, Signal.WAITING, Signal.KV_USAGE}),
    whole_from=30,
)
