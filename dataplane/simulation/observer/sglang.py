"""SGLang with `--enable-metrics`: its names, and its two batch lines.

What it counts by finished request (prompt and generation tokens) stands still while long
answers run; what it counts by step is in `realtime_tokens_total`.
"""

from datetime import datetime

from dataplane.engine_metrics.bucket_edges import SGLANG_REQUEST, SGLANG_TOKEN, SGLANG_TTFT
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.observer.dialect import (
    Dialect,
    EngineView,
    HistogramSeries,
    Read,
    Series,
)
from dataplane.simulation.observer.exposition import Labels
from dataplane.simulation.observer.measure import Measure


class SglangLog:
    """One line a batch, here one of the last batch at every interval."""

    def stage_ended(self, stage: str, seconds: float, at: datetime) -> list[str]:
        """Weights, and graphs, which is its compiling."""
        said = {
            "load": f"Load weight end. elapsed={seconds:.2f} s",
            "compile": f"Capture cuda graph end. Time elapsed: {seconds:.2f} s.",
        }
        return [_line(at, said[stage])] if stage in said else []

    def started(self, view: EngineView, at: datetime) -> list[str]:
        """Sizes, and that it is ready."""
        return [
            _line(at, f"max_total_num_tokens={view.config.num_slots}, "
                  f"max_running_requests={view.config.max_num_seqs}, "
                  f"context_len={view.config.max_model_len}"),
            f"[{_stamp(at)}] The server is fired up and ready to roll!",
        ]  # fmt: skip

    def periodic(self, view: EngineView, at: datetime) -> list[str]:
        """Nothing while it does nothing."""
        if view.rates.num_idle:
            return []
        return [
            _line(
                at,
                f"Decode batch, #running-req: {view.num_running}, #token: {_used_tokens(view)}, "
                f"token usage: {view.active_share:.2f}, cuda graph: True, "
                f"gen throughput (token/s): {view.rates.output_per_s:.2f}, "
                f"#queue-req: {view.num_waiting},",
            )
        ]

    def preempted(self, view: EngineView, at: datetime) -> list[str]:
        """It calls them retracted."""
        preempted = view.tally.last_preempted
        gained = sum(sequence.num_tokens for sequence in preempted)
        return [
            _line(
                at,
                f"KV cache pool is full. Retract requests. #retracted_reqs: {len(preempted)}, "
                f"#new_tokens_gained: {gained}",
            )
        ]

    def stuck(self, view: EngineView, at: datetime) -> list[str]:
        """Its own watchdog."""
        return [_line(at, "Watchdog timeout (self.watchdog_timeout=300, self.soft=False)")]

    def leaked(
        self, view: EngineView, request_id: str, held_seconds: float, at: datetime
    ) -> list[str]:
        """It looks at the whole pool, and only when nothing runs."""
        if view.num_running or view.num_waiting:
            return []
        config, stats = view.config, view.stats
        available = stats.num_free_blocks * config.block_size
        return [
            _line(
                at,
                f"pool memory leak detected! available_size={available}, "
                f"max_total_num_tokens={config.num_slots}",
            )
        ]

    def out_of_memory(self, view: EngineView, num_wanted: int, at: datetime) -> list[str]:
        """The scheduler dies, and the server with it."""
        wanted = num_wanted * view.config.block_size * 0.125
        return [
            _line(at, "Scheduler hit an exception: Traceback (most recent call last):"),
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted:.2f} MiB.",
        ]


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def _line(at: datetime, said: str) -> str:
    return f"[{_stamp(at)} TP0] {said}"


def _labels(view: EngineView) -> Labels:
    return (("engine_type", "unified"), ("model_name", view.identity.model), ("tp_rank", "0"))


def _used_tokens(view: EngineView) -> int:
    return view.stats.num_referenced_blocks * view.config.block_size


def _cached_by_source(view: EngineView) -> dict[Labels, float]:
    cached = float(view.tally.num_finished_cached_tokens)
    return {(("cache_source", "device"),): cached, (("cache_source", "total"),): cached}


def _realtime(view: EngineView) -> dict[Labels, float]:
    tally = view.tally
    return {
        (("mode", "prefill_compute"),): float(tally.num_scheduled_prompt_tokens),
        (("mode", "prefill_cache"),): float(tally.num_cached_tokens),
        (("mode", "decode"),): float(tally.num_scheduled_decode_steps),
    }


def _accept_length(view: EngineView) -> float | None:
    drafting = view.drafting
    if drafting is None:
        return None
    drafts = drafting.num_drafts
    return 1 + drafting.num_accepted_tokens / drafts if drafts else 0.0


def _accept_rate(view: EngineView) -> float | None:
    drafting = view.drafting
    if drafting is None:
        return None
    drafted = drafting.num_draft_tokens
    return drafting.num_accepted_tokens / drafted if drafted else 0.0


def _startup(view: EngineView) -> dict[Labels, float] | None:
    phases = {"load": "load_weight", "warm_up": "kv_cache_allocation"}
    found: dict[Labels, float] = {
        (("phase", phases[stage]),): seconds
        for stage, seconds in view.start_stages.items()
        if stage in phases
    }
    return found or None


def _gauge(name: str, says: str, read: Read) -> Series:
    return Series(f"sglang:{name}", "gauge", says, read)


def _counter(name: str, says: str, read: Read) -> Series:
    return Series(f"sglang:{name}_total", "counter", says, read)


_SERIES = (
    _gauge("num_running_reqs", "The number of running requests.", lambda view: view.num_running),
    _gauge(
        "num_queue_reqs", "The number of requests in the waiting queue.",
        lambda view: view.num_waiting,
    ),
    _gauge("token_usage", "The token usage.", lambda view: view.active_share),
    _gauge("num_used_tokens", "The number of used tokens.", _used_tokens),
    _gauge(
        "max_total_num_tokens", "Maximum total number of tokens.",
        lambda view: view.config.num_slots,
    ),
    _gauge(
        "kv_evictable_tokens", "Cached tokens that nobody uses.",
        lambda view: view.stats.num_evictable_blocks * view.config.block_size,
    ),
    _gauge(
        "kv_available_tokens", "Tokens that are free and not cached.",
        lambda view: (view.stats.num_free_blocks - view.stats.num_evictable_blocks)
        * view.config.block_size,
    ),
    _gauge("kv_used_tokens", "Tokens in use.", _used_tokens),
    _gauge(
        "gen_throughput", "The generation throughput (token/s).",
        lambda view: view.rates.output_per_s,
    ),
    _gauge("cache_hit_rate", "The prefix cache hit rate.", lambda view: view.rates.hit_rate),
    _gauge("spec_accept_length", "The average acceptance length.", _accept_length),
    _gauge("spec_accept_rate", "The acceptance rate of drafted tokens.", _accept_rate),
    _gauge("startup_time_seconds", "Seconds of a start phase.", _startup),
    _counter(
        "prompt_tokens", "Prefill tokens of finished requests.",
        lambda view: view.tally.num_finished_input_tokens,
    ),
    _counter(
        "generation_tokens", "Generation tokens of finished requests.",
        lambda view: view.tally.num_finished_output_tokens,
    ),
    _counter("cached_tokens", "Cached prompt tokens of finished requests.", _cached_by_source),
    _counter("realtime_tokens", "Tokens by step.", _realtime),
    _counter(
        "num_requests", "Requests that finished.",
        lambda view: view.tally.num_stopped + view.tally.num_at_limit,
    ),
    _counter(
        "num_aborted_requests", "Requests that were aborted.",
        lambda view: view.tally.num_cancelled,
    ),
    _counter(
        "num_retracted_requests", "Retracted requests.", lambda view: view.tally.num_preemptions
    ),
    _counter(
        "num_retracted_input_tokens", "Prompt tokens of retracted requests.",
        lambda view: view.tally.num_preempted_input_tokens,
    ),
    _counter(
        "num_retracted_output_tokens", "Output tokens of retracted requests.",
        lambda view: view.tally.num_preempted_output_tokens,
    ),
)  # fmt: skip

_HISTOGRAMS = (
    HistogramSeries(
        "sglang:time_to_first_token_seconds", "Histogram of time to first token.",
        Measure.TTFT, SGLANG_TTFT,
    ),
    HistogramSeries(
        "sglang:inter_token_latency_seconds", "Histogram of inter-token latency.",
        Measure.ITL, SGLANG_TOKEN,
    ),
    HistogramSeries(
        "sglang:e2e_request_latency_seconds", "Histogram of end-to-end latency.",
        Measure.E2E, SGLANG_REQUEST,
    ),
    HistogramSeries(
        "sglang:queue_time_seconds", "Histogram of queueing time.", Measure.QUEUE, SGLANG_REQUEST
    ),
)  # fmt: skip


def _histograms(_config: SchedulerConfig) -> tuple[HistogramSeries, ...]:
    return _HISTOGRAMS


SGLANG = Dialect(
    name="sglang",
    labels=_labels,
    series=_SERIES,
    histograms=_histograms,
    log=SglangLog(),
    stuck_seconds=300.0,
    counts_while_stuck=False,
)
