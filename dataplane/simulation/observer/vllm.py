"""vLLM: the same engine under the names of several releases.

    vllm        V1, from 0.12 on: `kv_cache_usage_perc`, `inter_token_latency_seconds`
    vllm-0.10   V1 before the renames: `gpu_cache_usage_perc`, `time_per_output_token_seconds`
    vllm-v0     0.6: no label `engine`, hit rates as gauges, swapped requests

Names, buckets and meanings as in the engines' public sources. All time histograms are kept
when a request finishes, but TTFT and the time between tokens.
"""

from collections.abc import Callable

from dataplane.engine_metrics.bucket_edges import VLLM_REQUEST, VLLM_TOKEN, VLLM_TTFT
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.observer.dialect import (
    Dialect,
    EngineView,
    HistogramSeries,
    Read,
    Series,
    one_two_five,
)
from dataplane.simulation.observer.exposition import Labels
from dataplane.simulation.observer.measure import Measure
from dataplane.simulation.observer.vllm_log import VllmLog, VllmV0Log

_ITERATION = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
)  # fmt: skip


def _labels(view: EngineView) -> Labels:
    return (("engine", "0"), ("model_name", view.identity.model))


def _labels_v0(view: EngineView) -> Labels:
    return (("model_name", view.identity.model),)


def _gauge(name: str, says: str, read: Read) -> Series:
    return Series(f"vllm:{name}", "gauge", says, read)


def _counter(name: str, says: str, read: Read) -> Series:
    return Series(f"vllm:{name}_total", "counter", says, read)


def _hit_rate(view: EngineView) -> float:
    queried = view.stats.num_prefix_query_tokens
    return view.stats.num_prefix_hit_tokens / queried if queried else 0.0


def _queried(view: EngineView) -> float:
    """Without a prefix cache nothing is looked up, and nothing counted."""
    return view.stats.num_prefix_query_tokens if view.config.is_prefix_caching else 0


def _waiting_by_reason(view: EngineView) -> dict[Labels, float]:
    return {
        (("reason", "capacity"),): float(view.num_waiting),
        (("reason", "deferred"),): 0.0,
    }


def _success(view: EngineView) -> dict[Labels, float]:
    """An abort is never counted, in builds up to late 2026."""
    by_reason = {"stop": view.tally.num_stopped, "length": view.tally.num_at_limit, "abort": 0}
    return {(("finished_reason", reason),): float(count) for reason, count in by_reason.items()}


def _by_source(view: EngineView) -> dict[Labels, float]:
    tally = view.tally
    return {
        (("source", "local_compute"),): float(tally.num_input_tokens - tally.num_cached_tokens),
        (("source", "local_cache_hit"),): float(tally.num_cached_tokens),
    }


def _config_info(view: EngineView) -> dict[Labels, float]:
    config = view.config
    labels = (
        ("block_size", str(config.block_size)),
        ("enable_prefix_caching", str(config.is_prefix_caching)),
        ("num_gpu_blocks", str(config.num_blocks)),
    )
    return {labels: 1.0}


def _drafting(field: str) -> Read:
    return lambda view: None if view.drafting is None else float(getattr(view.drafting, field))


_SHARED = (
    _gauge(
        "num_requests_running", "Number of requests in model execution batches.",
        lambda view: view.num_running,
    ),
    _gauge(
        "num_requests_waiting", "Number of requests waiting to be processed.",
        lambda view: view.num_waiting,
    ),
)  # fmt: skip

_COUNTERS = (
    _counter(
        "num_preemptions", "Cumulative number of preemption from the engine.",
        lambda view: view.tally.num_preemptions,
    ),
    _counter(
        "prompt_tokens", "Number of prefill tokens processed.",
        lambda view: view.tally.num_prefilled_tokens,
    ),
    _counter(
        "generation_tokens", "Number of generation tokens processed.",
        lambda view: view.tally.num_output_tokens,
    ),
    _counter("request_success", "Count of successfully processed requests.", _success),
)  # fmt: skip


def _prefix_cache(prefix: str) -> tuple[Series, ...]:
    return (
        _counter(
            f"{prefix}prefix_cache_queries", "Prefix cache queries, in queried tokens.",
            _queried,
        ),
        _counter(
            f"{prefix}prefix_cache_hits", "Prefix cache hits, in cached tokens.",
            lambda view: view.stats.num_prefix_hit_tokens,
        ),
    )  # fmt: skip


_SPECULATION = (
    _counter("spec_decode_num_drafts", "Number of drafts.", _drafting("num_drafts")),
    _counter(
        "spec_decode_num_draft_tokens", "Number of draft tokens.", _drafting("num_draft_tokens")
    ),
    _counter(
        "spec_decode_num_accepted_tokens",
        "Number of accepted tokens.",
        _drafting("num_accepted_tokens"),
    ),
)

_CONFIG = _gauge("cache_config_info", "Information of the LLMEngine CacheConfig.", _config_info)

_V1 = (
    *_SHARED,
    _gauge(
        "num_requests_waiting_by_reason", "Number of waiting requests by reason.",
        _waiting_by_reason,
    ),
    _gauge(
        "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
        lambda view: view.active_share,
    ),
    *_prefix_cache(""),
    *_COUNTERS,
    _counter("prompt_tokens_by_source", "Prompt tokens by source.", _by_source),
    _counter(
        "prompt_tokens_cached", "Prompt tokens found in a cache.",
        lambda view: view.tally.num_cached_tokens,
    ),
    *_SPECULATION,
    _CONFIG,
)  # fmt: skip

_V1_EARLY = (
    *_SHARED,
    _gauge(
        "gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.",
        lambda view: view.active_share,
    ),
    *_prefix_cache("gpu_"),
    *_COUNTERS,
    *_SPECULATION,
    _CONFIG,
)  # fmt: skip

_V0 = (
    *_SHARED,
    _gauge(
        "num_requests_swapped", "Number of requests swapped to CPU.",
        lambda view: 0.0,
    ),
    _gauge(
        "gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.",
        lambda view: view.active_share,
    ),
    _gauge(
        "cpu_cache_usage_perc", "CPU KV-cache usage. 1 means 100 percent usage.",
        lambda view: 0.0,
    ),
    _gauge("gpu_prefix_cache_hit_rate", "GPU prefix cache block hit rate.", _hit_rate),
    _gauge("cpu_prefix_cache_hit_rate", "CPU prefix cache block hit rate.", lambda view: -1.0),
    *_COUNTERS,
    _CONFIG,
)  # fmt: skip


def _histograms(
    itl_name: str, per_request_name: str | None
) -> Callable[[SchedulerConfig], tuple[HistogramSeries, ...]]:
    def of(config: SchedulerConfig) -> tuple[HistogramSeries, ...]:
        lengths = one_two_five(config.max_model_len)
        rows = [
            ("time_to_first_token_seconds", "time to first token", Measure.TTFT, VLLM_TTFT),
            (itl_name, "inter token latency", Measure.ITL, VLLM_TOKEN),
            ("e2e_request_latency_seconds", "e2e request latency", Measure.E2E, VLLM_REQUEST),
            ("request_queue_time_seconds", "time in WAITING phase", Measure.QUEUE, VLLM_REQUEST),
            (
                "request_inference_time_seconds", "time in RUNNING phase",
                Measure.INFERENCE, VLLM_REQUEST,
            ),
            (
                "request_prefill_time_seconds", "time in PREFILL phase",
                Measure.PREFILL, VLLM_REQUEST,
            ),
            ("request_decode_time_seconds", "time in DECODE phase", Measure.DECODE, VLLM_REQUEST),
            ("request_prompt_tokens", "prompt tokens", Measure.PROMPT_TOKENS, lengths),
            ("request_generation_tokens", "generation tokens", Measure.OUTPUT_TOKENS, lengths),
            (
                "request_params_max_tokens", "max_tokens parameter",
                Measure.MAX_OUTPUT_TOKENS, lengths,
            ),
            ("iteration_tokens_total", "tokens per engine step", Measure.STEP_TOKENS, _ITERATION),
        ]  # fmt: skip
        if per_request_name is not None:
            rows += [
                (per_request_name, "time per output token of a request", Measure.TPOT, VLLM_TOKEN),
                (
                    "request_prefill_kv_computed_tokens", "new KV tokens computed in prefill",
                    Measure.COMPUTED_TOKENS, lengths,
                ),
            ]  # fmt: skip
        return tuple(
            HistogramSeries(f"vllm:{name}", f"Histogram of {says}.", measure, bounds)
            for name, says, measure, bounds in rows
        )

    return of


VLLM = Dialect(
    name="vllm",
    labels=_labels,
    series=_V1,
    histograms=_histograms("inter_token_latency_seconds", "request_time_per_output_token_seconds"),
    log=VllmLog(),
)
VLLM_0_10 = Dialect(
    name="vllm-0.10",
    labels=_labels,
    series=_V1_EARLY,
    histograms=_histograms("time_per_output_token_seconds", None),
    log=VllmLog(),
)
VLLM_V0 = Dialect(
    name="vllm-v0",
    labels=_labels_v0,
    series=_V0,
    histograms=_histograms("time_per_output_token_seconds", None),
    log=VllmV0Log(),
    log_every_seconds=5.0,
    counts_while_stuck=False,
)
