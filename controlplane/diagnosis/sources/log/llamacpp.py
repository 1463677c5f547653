"""What llama.cpp's server writes, in builds old and new."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.sources.log.figure import Figure, plain
from controlplane.diagnosis.sources.log.shape import shape

_LLAMA = "llama.cpp"
_MIB = r"[\d.]+ ?[KMG]i?B"

STATISTICS_KEYS = frozenset({"eval"})

STATISTICS_START = re.compile(r"\beval time = ")

_RATE = re.compile(r"\b(prompt eval|eval) time = .*?([\d.]+) tokens per second")


def read_statistics(text: str) -> Iterator[Figure]:
    """The speed of one request's prefill or decode, which its timings end with."""
    found = _RATE.search(text)
    if found is None:
        return
    is_prompt = found[1] == "prompt eval"
    signal = Signal.PROMPT_RATE if is_prompt else Signal.GENERATION_RATE
    figure = plain(signal, f"{found[1]} tokens per second", found[2])
    if figure is not None:
        yield figure


SHAPES = (
    shape(
        "similarity",
        LogKind.SLOT_CHOSEN,
        r"selected slot by (?:LCP|lcs) similarity.*?(?:sim_best|similarity) = "
        r"(?P<similarity>[\d.]+)"
        r"(?:.*?f_keep = (?P<kept>[\d.]+))?",
        _LLAMA,
        by="similarity",
    ),
    shape("LRU", LogKind.SLOT_CHOSEN, r"selected slot by LRU", _LLAMA, by="LRU"),
    shape(
        "prompt",
        LogKind.PROMPT_STARTED,
        r"new prompt, n_ctx_slot = (?P<context>\d+).*?(?:task\.n_tokens|n_prompt_tokens) = "
        r"(?P<tokens>\d+)",
        _LLAMA,
    ),
    shape(
        "re-processing",
        LogKind.FULL_REPROCESS,
        r"forcing full prompt re-processing(?: due to (?P<w_why>[^(]+))?",
        _LLAMA,
    ),
    shape("memory_seq_rm", LogKind.CACHE_RESET, r"memory_seq_rm \[0, end\)", _LLAMA),
    shape("memory_seq_rm", LogKind.CACHE_CUT, r"memory_seq_rm \[(?P<from>\d+), end\)", _LLAMA),
    shape("rm", LogKind.CACHE_RESET, r"kv cache rm \[0, end\)", _LLAMA),
    shape("rm", LogKind.CACHE_CUT, r"kv cache rm \[(?P<from>\d+), end\)", _LLAMA),
    shape(
        "eval",
        LogKind.PROMPT_EVALUATED,
        r"prompt eval time = +(?P<seconds>[\d.]+ ms) / +(?P<tokens>\d+) tokens"
        r"(?:.*?(?P<per_second>[\d.]+) tokens per second)?",
        _LLAMA,
    ),
    shape(
        "eval",
        LogKind.GENERATED,
        r"(?<!prompt )eval time = +(?P<seconds>[\d.]+ ms) / +(?P<tokens>\d+) (?:tokens|runs)"
        r"(?:.*?(?P<per_second>[\d.]+) tokens per second)?",
        _LLAMA,
    ),
    shape(
        "saving",
        LogKind.HOST_STATE_SAVED,
        rf"saving prompt with length (?P<tokens>\d+), total state size = (?P<bytes>{_MIB})",
        _LLAMA,
    ),
    shape(
        "state",
        LogKind.HOST_STATE_SAVED,
        rf"cache state: (?P<prompts>\d+) prompts, (?P<bytes>{_MIB})"
        rf"(?: \(limits: (?P<limit_bytes>{_MIB}))?",
        _LLAMA,
    ),
    shape(
        "cudaMalloc",
        LogKind.OUT_OF_MEMORY,
        rf"allocating (?P<wanted_bytes>{_MIB}) on device (?P<device>\d+): cudaMalloc failed: "
        r"out of memory",
        _LLAMA,
    ),
    shape(
        "allocate",
        LogKind.OUT_OF_MEMORY,
        r"unable to allocate (?P<w_buffer>\w+) buffer",
        _LLAMA,
    ),
    shape(
        "allocate",
        LogKind.OUT_OF_MEMORY,
        r"failed to allocate (?P<w_buffer>\w+) buffer of size (?P<wanted_bytes>\d+)",
        _LLAMA,
    ),
    shape(
        "exceeded",
        LogKind.OUT_OF_MEMORY,
        r"Context size has been exceeded",
        _LLAMA,
        stage="decode",
    ),
    shape("full", LogKind.OUT_OF_MEMORY, r"KV cache is full", _LLAMA, stage="decode"),
    shape("load", LogKind.FAILED_TO_START, r"failed to load model", _LLAMA),
    shape("exiting", LogKind.FAILED_TO_START, r"exiting due to model loading error", _LLAMA),
    shape("listening", LogKind.READY, r"server is listening on", _LLAMA),
)
