"""What SGLang writes."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.sources.log.figure import Figure, plain
from controlplane.diagnosis.sources.log.shape import shape

_SGLANG = "sglang"

STATISTICS_KEYS = frozenset({"#running-req"})

_PAIR = re.compile(r"[,.:] (#?[a-zA-Z][\w #()/-]*?): (-?[\d.]+|True|False)(%)?")
STATISTICS_START = re.compile(r"(?:Prefill|Decode|Mixed) batch[ \w\[\]]*(?=[.,:])")
_SIGNALS = {
    "#running-req": (Signal.RUNNING, {}),
    "#queue-req": (Signal.WAITING, {}),
    "#token": (Signal.CONTEXT_TOKENS, {}),
    "#full token": (Signal.CONTEXT_TOKENS, {}),
    "token usage": (Signal.KV_USAGE, {}),
    "full token usage": (Signal.KV_USAGE, {"pool": "full"}),
    "swa token usage": (Signal.KV_USAGE, {"pool": "swa"}),
    "mamba usage": (Signal.KV_USAGE, {"pool": "mamba"}),
    "gen throughput (token/s)": (Signal.GENERATION_RATE, {}),
    "input throughput (token/s)": (Signal.PROMPT_RATE, {}),
    "cuda graph": (Signal.CUDA_GRAPH, {}),
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
    "#retracted-req": (Signal.RETRACTED, {}),
}


def read_statistics(text: str) -> Iterator[Figure]:
    """Of the line of a prefill batch, or that of every some decode batches."""
    start = STATISTICS_START.search(text)
    if start is None:
        return
    for name, number, sign in _PAIR.findall(text, start.end()):
        known = _SIGNALS.get(name)
        if known is None:
            continue
        signal, labels = known
        figure = (
            _flag(signal, name, number)
            if number[0] in "TF"
            else _number(signal, name, number, sign, labels)
        )
        if figure is not None:
            yield figure


def _flag(signal: Signal, name: str, text: str) -> Figure:
    return Figure(signal, name, float(text == "True"), text)


def _number(
    signal: Signal, name: str, text: str, sign: str, labels: dict[str, str]
) -> Figure | None:
    figure = plain(signal, name, text, **labels)
    if figure is None or not sign:
        return figure
    return Figure(signal, name, figure.value / 100, f"{text} %", labels)


_GB = r"[\d.]+ ?[KMGT]i?B"

SHAPES = (
    shape(
        "server_args",
        LogKind.STARTING,
        r"server_args=(?:ServerArgs\()?.*",
        _SGLANG,
    ),
    shape(
        "weight", LogKind.WEIGHTS_LOADING, rf"Load weight begin\. avail mem=(?P<free_bytes>{_GB})"
    ),
    shape(
        "checkpoint",
        LogKind.WEIGHTS_LOADING,
        r"Loading \w+ (?:\w+ )?checkpoint shards:\s+\d+% Completed \| (?P<done>\d+)/(?P<total>\d+)",
    ),
    shape(
        "weight",
        LogKind.WEIGHTS_LOADED,
        rf"Load weight end\..*?avail mem=(?P<free_bytes>{_GB})"
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
    shape("pool", LogKind.KV_CACHE_SIZED, rf"Memory pool end\. avail mem=(?P<free_bytes>{_GB})"),
    shape(
        "max_total_num_tokens",
        LogKind.KV_CACHE_SIZED,
        r"max_total_num_tokens=(?P<tokens>\d+)"
        r"(?:.*?chunked_prefill_size=(?P<chunked_prefill_size>-?\d+))?"
        r"(?:.*?max_prefill_tokens=(?P<max_prefill_tokens>\d+))?"
        r"(?:.*?max_running_requests=(?P<max_running_requests>\d+))?"
        r"(?:.*?context_len=(?P<max_model_len>\d+))?"
        rf"(?:.*?available_gpu_mem=(?P<free_bytes>{_GB}))?",
        _SGLANG,
    ),
    shape(
        "graph",
        LogKind.GRAPH_CAPTURE_STARTED,
        rf"Capture (?P<w_what>[\w ]*)cuda graph begin\..*?avail mem=(?P<free_bytes>{_GB})",
        _SGLANG,
    ),
    shape(
        "Capturing",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Capturing (?:num tokens|batches) \(.*?avail_mem=(?P<free_bytes>[\d.]+ GB)\):\s+\d+%.*?"
        r"\| (?P<done>\d+)/(?P<total>\d+)",
        _SGLANG,
    ),
    shape(
        "graph",
        LogKind.GRAPH_CAPTURE_FINISHED,
        r"Capture (?P<w_what>[\w ]*)cuda graph end\. Time elapsed: (?P<seconds>[\d.]+ s)\."
        rf"(?:.*?mem usage=(?P<bytes>{_GB}))?(?:.*?avail mem=(?P<free_bytes>{_GB}))?",
        _SGLANG,
    ),
    shape(
        "mem-fraction-static",
        LogKind.KV_CACHE_TOO_SMALL,
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        _SGLANG,
    ),
    shape("fired", LogKind.READY, r"The server is fired up and ready to roll", _SGLANG),
    shape(
        "Retract",
        LogKind.RETRACTED,
        r"(?:KV cache pool is full|Decode out of memory happened)\. Retract requests\."
        r".*?#retracted_reqs: (?P<num>\d+)"
        r"(?:.*?#(?:new_tokens_gained|new_token_ratio): (?P<tokens>[\d.]+))?",
        _SGLANG,
    ),
    shape("Watchdog", LogKind.NO_PROGRESS, r"Watchdog timeout(?:.*?(?P<seconds>[\d.]+))?"),
    shape(
        "rid",
        LogKind.OUTPUT_WITHOUT_OWNER,
        r"Received output for rid=['\"]?(?P<w_request_id>[\w-]+)['\"]? but the state was deleted",
        _SGLANG,
    ),
    shape("leak", LogKind.MEMORY_LEAK, r"memory leak detected", _SGLANG),
    shape(
        "hit",
        LogKind.DIED,
        r"(?P<w_what>Scheduler|TpModelWorkerClient|DetokenizerManager|TokenizerManager) hit an "
        r"exception",
        _SGLANG,
    ),
)
