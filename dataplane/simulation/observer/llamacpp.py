"""llama.cpp server with `--metrics`: few series, no histogram, no KV usage.

Of a prompt it counts tokens when it was read, of an answer when it ended or was cancelled; what
the cache spared when the request began, and calls of `llama_decode` as they go. The two speeds are
of what ended since anybody scraped last. While a step does not end, `/metrics` tells what it told
before. (As version 0.5 was seen to do, every quarter of a second during one long prompt of a single
step, one long answer, a cancelled one and one with drafts. Builds before it answer from the loop
that steps, and then not at all.)

A slot is a sequence.
"""

from datetime import datetime

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.observer.dialect import (
    Dialect,
    Drafting,
    EngineView,
    HistogramSeries,
    Read,
    Series,
)
from dataplane.simulation.observer.exposition import Labels


class LlamaCppLog:
    """Without times, as the server writes it by default."""

    def stage_ended(self, stage: str, seconds: float, at: datetime) -> list[str]:
        """Warming up is the one that it names."""
        if stage != "load":
            return []
        return ["common_init_from_params: warming up the model with an empty run - please wait ..."]

    def started(self, view: EngineView, at: datetime) -> list[str]:
        """That it listens."""
        return [
            f"srv    load_model: initializing slots, n_slots = {view.config.max_num_seqs}",
            "main: model loaded",
            "main: server is listening on http://127.0.0.1:8080",
        ]

    def periodic(self, view: EngineView, at: datetime) -> list[str]:
        """It says nothing of itself."""
        return []

    def preempted(self, view: EngineView, at: datetime) -> list[str]:
        """The nearest that it knows: no room for the next batch."""
        return [
            f"slot update_slots: id  {sequence.index} | task {sequence.sequence_id} | failed to "
            f"find free space in the KV cache, retrying with smaller batch size"
            for sequence in view.tally.last_preempted
        ]

    def stuck(self, view: EngineView, at: datetime) -> list[str]:
        """Nobody is left to say it."""
        return []

    def leaked(
        self, view: EngineView, request_id: str, held_seconds: float, at: datetime
    ) -> list[str]:
        """It does not know."""
        return []

    def out_of_memory(self, view: EngineView, num_wanted: int, at: datetime) -> list[str]:
        """The allocation that failed, and the abort."""
        wanted = num_wanted * view.config.block_size * 0.125
        return [
            f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {wanted:.2f} MiB on device 0: "
            f"cudaMalloc failed: out of memory",
            "graph_reserve: failed to allocate compute buffers",
        ]


def _counter(name: str, says: str, read: Read) -> Series:
    return Series(f"llamacpp:{name}", "counter", says, read)


def _gauge(name: str, says: str, read: Read) -> Series:
    return Series(f"llamacpp:{name}", "gauge", says, read)


def _speed(num_tokens: int, seconds: float) -> float:
    return num_tokens / seconds if seconds > 0 else 0.0


def _busy_slots(view: EngineView) -> float:
    tally = view.tally
    return tally.num_scheduled_decode_steps / tally.num_steps if tally.num_steps else 0.0


def _drafted(field: str) -> Read:
    """0 without speculation, as the server says."""

    def read(view: EngineView) -> float:
        drafting = view.ended_drafting or Drafting(
            num_drafts=0, num_draft_tokens=0, num_accepted_tokens=0
        )
        return float(getattr(drafting, field))

    return read


_SERIES = (
    _counter(
        "prompt_tokens_total", "Number of prompt tokens processed, excluding cached tokens",
        lambda view: view.tally.ended.num_prompt_tokens,
    ),
    _counter(
        "prompt_tokens_cached_total", "Number of prompt tokens reused from the cache",
        lambda view: view.tally.num_cached_tokens,
    ),
    _counter(
        "prompt_seconds_total", "Total time spent processing prompts",
        lambda view: view.tally.ended.prompt_seconds,
    ),
    _counter(
        "tokens_predicted_total", "Number of generation tokens processed",
        lambda view: view.tally.ended.num_output_tokens,
    ),
    _counter(
        "tokens_predicted_seconds_total", "Total time spent generating tokens",
        lambda view: view.tally.ended.output_seconds,
    ),
    _counter(
        "n_decode_total", "Total number of llama_decode() calls",
        lambda view: view.tally.num_steps,
    ),
    _counter(
        "n_tokens_max", "Largest observed sequence length (prompt + generation)",
        lambda view: view.tally.longest_context(),
    ),
    _gauge(
        "n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call",
        _busy_slots,
    ),
    _gauge(
        "prompt_tokens_seconds", "Average prompt throughput in tokens/s",
        lambda view: _speed(view.new_work.num_prompt_tokens, view.new_work.prompt_seconds),
    ),
    _gauge(
        "predicted_tokens_seconds", "Average generation throughput in tokens/s",
        lambda view: _speed(view.new_work.num_output_tokens, view.new_work.output_seconds),
    ),
    _gauge(
        "requests_processing", "Number of requests processing", lambda view: view.num_running
    ),
    _gauge("requests_deferred", "Number of requests deferred", lambda view: view.num_waiting),
    _counter(
        "spec_decode_num_drafts_total",
        "Speculative: Total speculative decoding verification steps",
        _drafted("num_drafts"),
    ),
    _counter(
        "spec_decode_num_draft_tokens_total", "Speculative: Total draft tokens generated",
        _drafted("num_draft_tokens"),
    ),
    _counter(
        "spec_decode_num_accepted_tokens_total",
        "Speculative: Total draft tokens accepted by the target model",
        _drafted("num_accepted_tokens"),
    ),
)  # fmt: skip


def _no_labels(_view: EngineView) -> Labels:
    return ()


def _no_histograms(_config: SchedulerConfig) -> tuple[HistogramSeries, ...]:
    return ()


LLAMACPP = Dialect(
    name="llamacpp",
    labels=_no_labels,
    series=_SERIES,
    histograms=_no_histograms,
    log=LlamaCppLog(),
)
