"""The statistics of TensorRT-LLM: a line for each iteration, or Triton's JSON of it."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.sources.log.figure import Figure, plain
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


def read_statistics(text: str) -> Iterator[Figure]:
    """Of one iteration."""
    for name, number in _PAIR.findall(text):
        signal = _SIGNALS.get(name)
        figure = None if signal is None else plain(signal, name, number)
        if figure is not None:
            yield figure
