"""What TensorRT-LLM writes: a line for each iteration, or Triton's JSON of it, and its start."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.figure import FigurePlace
from controlplane.diagnosis.sources.log.shape import shape
from dataplane.engine_metrics.signal import Signal

STATISTICS_KEYS = frozenset({"num_scheduled_requests", "Iteration"})
STATISTICS_START = re.compile(r"\biter = \d+.*num_scheduled_requests|\"Iteration Counter\"")

_PAIR = re.compile(r"['\"]?([A-Za-z][\w ]*?)['\"]?\s?[=:] ?(-?\d+(?:\.\d+)?)(?=[,}\s]|ms|s|$)")
_SIGNALS = {
    "num_scheduled_requests": Signal.RUNNING,
    "Scheduled Requests": Signal.RUNNING,
    "kv_cache_util": Signal.KV_USAGE,
    "num_ctx_tokens": Signal.BATCH_COMPUTED_TOKENS,
    "num_ctx_requests": Signal.BATCH_NEW_REQUESTS,
    "Context Requests": Signal.BATCH_NEW_REQUESTS,
    "Max KV cache blocks": Signal.KV_BLOCKS,
    "Free KV cache blocks": Signal.KV_BLOCKS_FREE,
    "Tokens per KV cache block": Signal.KV_BLOCK_SIZE,
}


def find_statistics(text: str) -> Iterator[FigurePlace]:
    """Of one iteration."""
    for found in _PAIR.finditer(text):
        signal = _SIGNALS.get(found[1])
        if signal is not None:
            yield FigurePlace(signal, found[1], found.span(2))


_TRTLLM = "trtllm"
_SIZE = r"[\d.]+ ?[KMGT]i?B"

SHAPES = (
    shape("Starting init", LogKind.STARTING, r"Starting TensorRT-LLM init", _TRTLLM),
    shape(
        "building Total",
        LogKind.COMPILED,
        r"Total time of building (?P<w_what>all engines|.+?): (?P<seconds>\d+:\d\d:\d\d)",
        _TRTLLM,
    ),
    shape(
        "converting checkpoint Total",
        LogKind.WEIGHTS_LOADED,
        r"Total time of reading and converting .*?checkpoint: (?P<seconds>\d+:\d\d:\d\d)",
        _TRTLLM,
    ),
    shape(
        "weights Loading concurrently",
        LogKind.WEIGHTS_LOADING,
        r"Loading weights concurrently:\s+\d+%.*?\| (?P<done>\d+)/(?P<total>\d+)",
        _TRTLLM,
    ),
    shape("checkpoint Prefetching", LogKind.WEIGHTS_LOADING, r"Prefetching .*checkpoint", _TRTLLM),
    shape(
        "weights Use",
        LogKind.WEIGHTS_LOADED,
        rf"Use (?P<bytes>{_SIZE}) for model weights",
        _TRTLLM,
    ),
    shape(
        "deserialization Engine",
        LogKind.ERROR,
        r"Engine deserialization failed",
        _TRTLLM,
        stage="load",
    ),
    shape(
        "Loaded engine",
        LogKind.WEIGHTS_LOADING,
        r"Loaded engine size: (?P<engine_bytes>\d+ MiB)",
        _TRTLLM,
    ),
    shape(
        "Estimating KV",
        LogKind.PROFILING,
        rf"Estimating max memory in KV cache ?: (?P<kv_bytes>{_SIZE})",
        _TRTLLM,
    ),
    shape(
        "profiling Peak",
        LogKind.MEMORY_SPLIT,
        rf"Peak memory during memory usage profiling .*?: (?P<activation_bytes>{_SIZE})",
        _TRTLLM,
    ),
    shape(
        "CUDA graph instances",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Creating CUDA graph instances for (?P<total>\d+) batch sizes",
        _TRTLLM,
    ),
    shape(
        "CUDA graph generation",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Run generation only CUDA graph warmup",
        _TRTLLM,
    ),
    shape(
        "Hang detected",
        LogKind.NO_PROGRESS,
        r"Hang detected on rank (?P<hung_rank>\d+)",
        _TRTLLM,
        what="hang detector",
    ),
)
