"""What SGLang writes."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.figure import FigurePlace, Unit
from controlplane.diagnosis.sources.log.shape import shape
from dataplane.engine_metrics.signal import Signal

_SGLANG = "sglang"

STATISTICS_KEYS = frozenset({"#running-req", "#queue-req", "#new-seq"})

STATISTICS_START = re.compile(
    r"(?:Prefill|Decode|Mixed) batch[ \w\[\]]*(?=[.,:])|^(?=#running-req: \d+, #token: )"
)
"""The first versions begin a line of decode batches with its figures."""
_SIGNALS: dict[str, tuple[Signal, dict[str, str]]] = {
    "#running-req": (Signal.RUNNING, {}),
    "#queue-req": (Signal.WAITING, {}),
    "#token": (Signal.CONTEXT_TOKENS, {}),
    "#full token": (Signal.CONTEXT_TOKENS, {}),
    "token usage": (Signal.KV_USAGE, {}),
    "full token usage": (Signal.KV_USAGE, {"pool": "full"}),
    "swa token usage": (Signal.KV_USAGE, {"pool": "swa"}),
    "mamba usage": (Signal.KV_USAGE, {"pool": "mamba"}),
    "gen throughput (token/s)": (Signal.GENERATION_RATE, {}),
    "gen throughput": (Signal.GENERATION_RATE, {}),
    "input throughput (token/s)": (Signal.PROMPT_RATE, {}),
    "cuda graph": (Signal.CUDA_GRAPH, {}),
    "npu graph": (Signal.CUDA_GRAPH, {}),
    "accept len": (Signal.ACCEPTANCE_LENGTH, {}),
    "accept rate": (Signal.ACCEPTANCE_RATE, {}),
    "cache hit rate": (Signal.HIT_RATE, {}),
    "#new-seq": (Signal.BATCH_NEW_REQUESTS, {}),
    "#new-token": (Signal.BATCH_COMPUTED_TOKENS, {}),
    "#cached-token": (Signal.BATCH_CACHED_TOKENS, {}),
    "#pending-token": (Signal.PENDING_PROMPT_TOKENS, {}),
    "#transfer-req": (Signal.TRANSFER_QUEUE, {}),
    "#prealloc-req": (Signal.DECODE_QUEUE, {}),
    "#bootstrap-req": (Signal.PREFILL_QUEUE, {}),
    "#unbootstrapped-req": (Signal.PREFILL_QUEUE, {}),
    "#inflight-req": (Signal.TRANSFER_QUEUE, {}),
    "#transferring-req": (Signal.TRANSFER_QUEUE, {}),
    "#retracted-req": (Signal.RETRACTED, {}),
}
_OF_PREFILL: dict[str, tuple[Signal, dict[str, str]]] = {
    "#prealloc-req": (Signal.PREFILL_QUEUE, {})
}
"""A prefill server calls by this name what it is not connected to a decode server for yet."""


def find_statistics(text: str) -> Iterator[FigurePlace]:
    """Of the line of a prefill batch, or that of every some decode batches."""
    start = STATISTICS_START.search(text)
    if start is None:
        return
    is_prefill = start[0].startswith("Prefill")
    at = start.end() + bool(start[0])
    for piece in text[at:].split(", "):
        name, _, value = piece.strip(" ,").partition(": ")
        known = _OF_PREFILL.get(name) if is_prefill else None
        known = known or _SIGNALS.get(name)
        if known is not None:
            begin = at + len(piece.rstrip(" ,")) - len(value)
            number, unit = _number(value)
            yield FigurePlace(known[0], name, (begin, begin + len(number)), unit, known[1])
        at += len(piece) + len(", ")


def _number(value: str) -> tuple[str, Unit]:
    if value in ("True", "False"):
        return value, Unit.FLAG
    if value.endswith("%"):
        return value[:-1], Unit.PERCENT
    return value.removesuffix(" token/s"), Unit.PLAIN


_GB = r"-?[\d.]+ ?[KMGT]i?B"
_FREE_OF_POOL = (
    r"available_size=(?P<available>\d+), (?:protected_size=(?P<protected>\d+), )?"
    r"(?:self\.)?max_total_num_tokens?=(?P<total>\d+)",
    r"max_total_num_tokens=(?P<total>\d+), available_size=(?P<available>\d+), "
    r"evictable_size=(?P<evictable>\d+), protected_size=(?P<protected>\d+)",
    r"leak detected!.*?total=(?P<total>\d+), available=(?P<available>\d+), "
    r"evictable=(?P<evictable>\d+), protected=(?P<protected>\d+)",
)
"""What its own check of a pool found, older versions first. They count what is evictable as
available; the first wrote this into a line of its own, before the one that says what it means."""

SHAPES = (
    shape("server_args", LogKind.STARTING, r"server_args=(?:ServerArgs\()?", _SGLANG),
    # --- it starts ------------------------------------------------------------------------
    shape(
        "weight",
        LogKind.WEIGHTS_LOADING,
        rf"Load weight begin\. avail mem=(?P<free_bytes>{_GB})",
        _SGLANG,
    ),
    shape(
        "shards Multi-thread",
        LogKind.WEIGHTS_LOADING,
        r"Multi-thread loading shards:\s+\d+% Completed \| (?P<done>\d+)/(?P<total>\d+)",
    ),
    shape(
        "weight",
        LogKind.WEIGHTS_LOADED,
        rf"Load weight end\.(?:.*?elapsed=(?P<seconds>[\d.]+ s))?.*?avail mem=(?P<free_bytes>{_GB})"
        rf"(?:, mem usage=(?P<bytes>{_GB}))?",
        _SGLANG,
    ),
    shape(
        "allocated",
        LogKind.KV_CACHE_SIZED,
        r"KV Cache is allocated\..*?#tokens: (?P<tokens>\d+)"
        rf"(?:, KV size: (?P<bytes>{_GB}))?(?:, K size: (?P<k_bytes>{_GB}), V size: "
        rf"(?P<v_bytes>{_GB}))?",
        _SGLANG,
    ),
    shape(
        "Memory",
        LogKind.KV_CACHE_SIZED,
        rf"Memory pool end\. avail mem=(?P<free_bytes>{_GB})",
        _SGLANG,
    ),
    *(
        shape(f"{word} available_size", LogKind.MEMORY_LEAK, _FREE_OF_POOL[0], _SGLANG)
        for word in ("max_total_num_token", "max_total_num_tokens")
    ),
    *(shape("leak", LogKind.MEMORY_LEAK, pattern, _SGLANG) for pattern in _FREE_OF_POOL[1:3]),
    shape(
        "max_total_num_token",
        LogKind.KV_CACHE_SIZED,
        r"max_total_num_token=(?P<tokens>\d+), max_prefill_num_token=\d+"
        r"(?:, context_len=(?P<max_model_len>\d+))?",
        _SGLANG,
    ),
    shape(
        "max_total_num_tokens",
        LogKind.KV_CACHE_SIZED,
        r"(?<!self\.)max_total_num_tokens=(?P<tokens>\d+)"
        r"(?:.*?chunked_prefill_size=(?P<chunked_prefill_size>-?\d+))?"
        r"(?:.*?max_prefill_tokens=(?P<max_prefill_tokens>\d+))?"
        r"(?:.*?max_running_requests=(?P<max_running_requests>\d+))?"
        r"(?:.*?context_len=(?P<max_model_len>\d+))?"
        rf"(?:.*?available_gpu_mem=(?P<free_bytes>{_GB}))?",
        _SGLANG,
    ),
    shape(
        "mem-fraction-static",
        LogKind.KV_CACHE_TOO_SMALL,
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        _SGLANG,
    ),
    shape(
        "profiled",
        LogKind.KV_CACHE_TOO_SMALL,
        r"max_total_tokens=\d+ is larger than the profiled value (?P<tokens>-\d+)",
        _SGLANG,
    ),
    shape(
        "graph",
        LogKind.GRAPH_CAPTURE_STARTED,
        rf"Capture (?P<w_what>[\w ]*?)(?:cuda|npu|cpu) graph begin\..*?"
        rf"avail mem=(?P<free_bytes>{_GB})",
        _SGLANG,
    ),
    shape(
        "Capturing",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"(?:Capturing|Compiling) (?:num tokens|batches) \(.*?avail_mem=(?P<free_bytes>[\d.]+ GB)\)"
        r":\s+\d+%.*?\| (?P<done>\d+)/(?P<total>\d+)",
        _SGLANG,
    ),
    shape(
        "Capture num tokens",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Capture cuda graph num tokens \[",
        _SGLANG,
        what="piecewise",
    ),
    shape(
        "graph",
        LogKind.GRAPH_CAPTURE_FINISHED,
        r"Capture (?P<w_what>[\w ]*?)(?:cuda|npu|cpu) graph end\. Time elapsed: "
        rf"(?P<seconds>[\d.]+ s)\.(?:.*?mem usage=(?P<bytes>{_GB}))?"
        rf"(?:.*?avail mem=(?P<free_bytes>{_GB}))?",
        _SGLANG,
    ),
    shape("fired", LogKind.READY, r"The server is fired up and ready to roll", _SGLANG),
    # --- it runs --------------------------------------------------------------------------
    shape(
        "#retracted_reqs",
        LogKind.RETRACTED,
        r"#retracted_reqs: (?P<num>\d+)(?:.*?#new_tokens?_gained: (?P<tokens>\d+))?"
        r"(?:.*?#new_token_ratio: (?P<ratio_before>[\d.]+) -> (?P<ratio_after>[\d.]+))?",
        _SGLANG,
    ),
    shape(
        "Watchdog",
        LogKind.NO_PROGRESS,
        r"Watchdog timeout(?:.*?timeout=(?P<seconds>[\d.]+))?",
        _SGLANG,
        what="watchdog",
    ),
    shape(
        "detokenizer",
        LogKind.NO_PROGRESS,
        r"Health check failed\. Server couldn't get a response from detokenizer for last "
        r"(?P<seconds>\d+ seconds)",
        _SGLANG,
        what="health check",
    ),
    shape(
        "deleted",
        LogKind.OUTPUT_WITHOUT_OWNER,
        r"Received output for rid=['\"]?(?P<w_request_id>[\w-]+)['\"]? but the state was deleted",
        _SGLANG,
    ),
    shape("leak", LogKind.MEMORY_LEAK, r"(?:memory|pool) leak detected!?", _SGLANG),
    shape(
        "disconnected",
        LogKind.CLIENT_GONE,
        r"Request is disconnected from the client side.*?(?:rid=)?['\"]?(?P<w_request_id>[\w-]+)?",
        _SGLANG,
    ),
    shape("flushed", LogKind.CACHE_RESET, r"Cache flushed successfully", _SGLANG),
    shape("full queue", LogKind.REJECTED, r"The request queue is full", _SGLANG),
    *(
        shape(
            f"{verb} Input",
            LogKind.PROMPT_TOO_LONG,
            r"Input (?:length )?\(?(?P<tokens>\d+) tokens\)? (?:is longer than|exceeds) .*?"
            r"\((?P<limit>\d+)(?: tokens)?\)",
            _SGLANG,
        )
        for verb in ("longer", "exceeds")
    ),
    shape(
        "failed request",
        LogKind.TRANSFER_FAILED,
        r"(?P<w_stage>Prefill bootstrap|Prefill transfer|Decode bootstrap|Decode handshake|"
        r"Decode transfer) failed for request .*?rid='?(?P<w_request_id>[\w-]+)"
        r"(?:.*?KVTransferError\([^)]*\): (?P<w_why>.*?)(?: after (?P<seconds>[\d.]+s).*)?$)?",
        _SGLANG,
    ),
    shape("KVTransferError", LogKind.TRANSFER_FAILED, r"KVTransferError"),
    shape(
        "prebuilt allocate",
        LogKind.NO_ROOM,
        r"Failed to allocate KV cache for a prebuilt request, available tokens (?P<tokens>\d+)",
        _SGLANG,
    ),
    # --- it ends --------------------------------------------------------------------------
    shape(
        "Decode memory",
        LogKind.OUT_OF_MEMORY,
        r"Decode out of memory\. Try to lower your batch size",
        _SGLANG,
        stage="decode",
    ),
    shape(
        "No space",
        LogKind.OUT_OF_MEMORY,
        r"No space left for only one request",
        _SGLANG,
        stage="decode",
    ),
    shape(
        "Prefill memory",
        LogKind.OUT_OF_MEMORY,
        r"Prefill out of memory\. Try to lower your batch size",
        _SGLANG,
        stage="prefill",
    ),
    shape(
        "exception",
        LogKind.DIED,
        r"(?P<w_what>Scheduler|TpModelWorkerClient\w*|DetokenizerManager|TokenizerManager|"
        r"DataParallelController|ModelTpServer) hit an exception",
        _SGLANG,
    ),
    shape(
        "terminated",
        LogKind.DIED,
        r"(?P<w_what>Scheduler or DataParallelController) \d+ terminated with (?P<exit_code>-?\d+)",
        _SGLANG,
    ),
    shape("dead", LogKind.DIED, r"Rank (?P<scheduler>\d+) scheduler is dead", _SGLANG),
)
