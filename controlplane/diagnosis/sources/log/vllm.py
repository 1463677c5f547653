"""What vLLM writes, V0 and V1."""

import re
from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.sources.log.figure import Figure, percent, plain
from controlplane.diagnosis.sources.log.shape import shape

_VLLM = "vllm"

STATISTICS_KEYS = frozenset({"throughput", "SpecDecoding", "Speculative", "hit"})

STATISTICS_START = re.compile(
    r"Avg prompt throughput|Prefix cache hit rate: GPU|SpecDecoding metrics|Speculative metrics"
)

_PAIR = re.compile(
    r"([A-Z][A-Za-z ]*?): (?:GPU: )?(-?[\d.]+)\s?(%|tokens/s|reqs|tokens|(?=,)|(?<=\.))"
)
_ENGINE = re.compile(r"\bEngine (\d{1,4}): ")
_SIGNALS = {
    "Avg prompt throughput": Signal.PROMPT_RATE,
    "Avg generation throughput": Signal.GENERATION_RATE,
    "Running": Signal.RUNNING,
    "Waiting": Signal.WAITING,
    "Pending": Signal.WAITING,
    "Deferred": Signal.DEFERRED,
    "Swapped": Signal.SWAPPED,
    "CPU KV cache usage": Signal.HOST_KV_USAGE,
    "GPU KV cache usage": Signal.KV_USAGE,
    "GPU cache usage": Signal.KV_USAGE,
    "KV cache usage": Signal.KV_USAGE,
    "Prefix cache hit rate": Signal.HIT_RATE,
    "External prefix cache hit rate": Signal.EXTERNAL_HIT_RATE,
    "MM cache hit rate": Signal.MEDIA_HIT_RATE,
    "Mean acceptance length": Signal.ACCEPTANCE_LENGTH,
    "Avg Draft acceptance rate": Signal.ACCEPTANCE_RATE,
    "Draft acceptance rate": Signal.ACCEPTANCE_RATE,
    "System efficiency": Signal.SPECULATION_EFFICIENCY,
    "Accepted": Signal.LATE_ACCEPTED_TOKENS,
    "Drafted": Signal.LATE_DRAFT_TOKENS,
    "Number of speculative tokens": Signal.SPECULATED_TOKENS,
    "Number of accepted tokens": Signal.ACCEPTED_TOKENS,
    "Number of draft tokens tokens": Signal.DRAFT_TOKENS,
    "Number of draft tokens": Signal.DRAFT_TOKENS,
}


def read_statistics(text: str) -> Iterator[Figure]:
    """Of the line that both versions write every few seconds, and those beside it."""
    engine = _ENGINE.search(text)
    labels = {"engine": str(int(engine[1]))} if engine else {}
    for name, number, unit in _PAIR.findall(text):
        signal = _SIGNALS.get(name)
        if signal is None:
            continue
        make = percent if unit == "%" else plain
        figure = make(signal, name, number.rstrip("."), **labels)
        if figure is not None:
            yield figure


SHAPES = (
    # --- it starts ------------------------------------------------------------------------
    shape(
        "Initializing",
        LogKind.STARTING,
        r"Initializing an? (?:V1 )?LLM engine \(v(?P<w_version>[\w.+-]+)\)"
        r"(?:.*?\bmax_seq_len=(?P<max_model_len>\d+))?"
        r"(?:.*?\btensor_parallel_size=(?P<tensor_parallel_size>\d+))?",
        _VLLM,
    ),
    shape(
        "vLLM",
        LogKind.STARTING,
        r"vLLM (?:API )?server version v?(?P<w_version>\d[\w.+-]*)",
        _VLLM,
    ),
    shape("max", LogKind.STARTING, r"Using max model len (?P<max_model_len>[\d,]+)", _VLLM),
    shape("load", LogKind.WEIGHTS_LOADING, r"Starting to load model (?P<w_model>\S+?)\.{3}", _VLLM),
    shape(
        "checkpoint",
        LogKind.WEIGHTS_LOADING,
        r"Loading \w+ (?:\w+ )?checkpoint shards:\s+\d+% Completed \| (?P<done>\d+)/(?P<total>\d+)",
        _VLLM,
    ),
    shape(
        "took",
        LogKind.WEIGHTS_LOADED,
        r"(?:Model loading|Loading model weights) took (?P<bytes>[\d.]+ ?[KMGT]i?B)(?: memory)?"
        r"(?: and (?P<seconds>[\d.]+ seconds))?",
        _VLLM,
    ),
    shape("took", LogKind.WEIGHTS_LOADED, r"Loading weights took (?P<seconds>[\d.]+ seconds)"),
    shape(
        "compile",
        LogKind.COMPILED,
        r"torch\.compile (?:takes|took) (?P<seconds>[\d.]+ s)",
        _VLLM,
    ),
    shape(
        "profile",
        LogKind.PROFILING,
        r"Starting profile run(?: for (?P<w_what>[\w -]+))?",
        _VLLM,
    ),
    shape("profiled", LogKind.PROFILING, r"Encoder cache will be initialized .* profiled", _VLLM),
    shape(
        "profiling",
        LogKind.PROFILING,
        r"Memory profiling (?:takes|took) (?P<seconds>[\d.]+ seconds)",
        _VLLM,
    ),
    shape(
        "weights",
        LogKind.MEMORY_SPLIT,
        r"model weights take (?P<weights_bytes>[\d.]+ ?\w+); non_torch_memory takes "
        r"(?P<other_bytes>[\d.]+ ?\w+); PyTorch activation peak memory takes "
        r"(?P<activation_bytes>[\d.]+ ?\w+); the rest of the memory reserved for KV Cache is "
        r"(?P<kv_bytes>-?[\d.]+ ?\w+)",
        _VLLM,
    ),
    shape(
        "Actual",
        LogKind.MEMORY_SPLIT,
        r"Free memory on device \((?P<free_gib>[\d.]+)/(?P<total_bytes>[\d.]+ GiB)\) on startup\."
        r".*?Actual usage is (?P<weights_bytes>[\d.]+ GiB) for weight, "
        r"(?P<activation_bytes>[\d.]+ GiB) for peak activation, (?P<other_bytes>[\d.]+ GiB) for "
        r"non-torch memory(?:, and (?P<graph_bytes>[\d.]+ GiB) for CUDAGraph)?",
        _VLLM,
    ),
    shape(
        "Available",
        LogKind.KV_CACHE_SIZED,
        r"Available KV cache memory: (?P<bytes>-?[\d.]+ ?[KMGT]i?B)",
        _VLLM,
    ),
    shape("size", LogKind.KV_CACHE_SIZED, r"GPU KV cache size: (?P<tokens>[\d,]+) tokens", _VLLM),
    shape(
        "concurrency",
        LogKind.KV_CACHE_SIZED,
        r"Maximum concurrency for (?P<max_model_len>[\d,]+) tokens per request: "
        r"(?P<concurrency>[\d.,]+)x",
        _VLLM,
    ),
    shape(
        "blocks",
        LogKind.KV_CACHE_SIZED,
        r"# (?:GPU|cuda|CUDA) blocks: (?P<blocks>[\d,]+), # CPU blocks: (?P<cpu_blocks>[\d,]+)",
        _VLLM,
    ),
    shape(
        "seq",
        LogKind.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<max_model_len>\d+)\) is larger than the maximum number of tokens that "
        r"can be stored in KV cache \((?P<tokens>\d+)\)",
        _VLLM,
    ),
    shape(
        "needed",
        LogKind.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<max_model_len>\d+)\), \(?(?P<needed_bytes>[\d.]+ GiB) KV cache is "
        r"needed, which is larger than the available KV cache memory "
        r"\((?P<available_bytes>-?[\d.]+ GiB)\)"
        r"(?:.*?estimated maximum model length is (?P<tokens>\d+))?",
        _VLLM,
    ),
    shape(
        "cache",
        LogKind.KV_CACHE_TOO_SMALL,
        r"No available memory for the cache blocks",
        _VLLM,
    ),
    shape(
        "desired",
        LogKind.FREE_MEMORY_TOO_LITTLE,
        r"Free memory on device (?P<w_device>\S+ )?\((?P<free_gib>[\d.]+)/"
        r"(?P<total_bytes>[\d.]+ GiB)\) on startup is less than desired GPU memory utilization "
        r"\((?P<share>[\d.]+), (?P<wanted_bytes>[\d.]+ GiB)\)",
        _VLLM,
    ),
    shape(
        "Capturing",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Capturing (?P<w_what>[Cc][Uu][Dd][Aa] ?[Gg]raphs?.*?):\s+\d+%.*?"
        r"\| (?P<done>\d+)/(?P<total>\d+)",
        _VLLM,
    ),
    shape(
        "Capturing",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Capturing (?:the model for CUDA graphs|cudagraphs|CUDA graph)",
        _VLLM,
    ),
    shape(
        "capturing",
        LogKind.GRAPH_CAPTURE_FINISHED,
        r"Graph capturing finished in (?P<seconds>[\d.]+ secs)"
        r"(?:, took (?P<bytes>-?[\d.]+ GiB))?",
        _VLLM,
    ),
    shape(
        "init",
        LogKind.INITIALIZED,
        r"init engine \(.*?\) took (?P<seconds>[\d.]+ s\w*)"
        r"(?: \(compilation: (?P<compile_seconds>[\d.]+ s)\))?",
        _VLLM,
    ),
    shape(
        "swap",
        LogKind.HOST_OUT_OF_MEMORY,
        r"Too large swap space\. (?P<wanted_bytes>[\d.]+ GiB) out of the (?P<bytes>[\d.]+ GiB)",
        _VLLM,
    ),
    # --- it runs --------------------------------------------------------------------------
    shape(
        "preempted",
        LogKind.PREEMPTED,
        r"Sequence group (?P<w_request_id>\S+) is preempted by (?:PreemptionMode\.)?(?P<w_mode>\w+)"
        r" mode(?:.*?total_(?:num_)?cumulative_preemption(?:_cnt)?=(?P<cumulative>\d+))?",
        _VLLM,
    ),
    shape(
        "swap",
        LogKind.OUT_OF_MEMORY,
        r"Aborted due to the lack of CPU swap space",
        _VLLM,
        stage="decode",
    ),
    shape(
        "broadcast",
        LogKind.NO_PROGRESS,
        r"No available (?:shared memory broadcast )?block found in (?P<seconds>\d+ second)",
        _VLLM,
    ),
    shape(
        "longer",
        LogKind.PROMPT_TOO_LONG,
        r"prompt \((?:length )?(?P<tokens>\d+)(?: tokens)?\).* (?:longer than|exceeds) .*?"
        r"(?:length|limit) (?:of )?\(?(?P<limit>\d+)\)?",
    ),
    shape(
        "maximum",
        LogKind.PROMPT_TOO_LONG,
        r"maximum context length is (?P<limit>\d+) tokens.*?(?:requested|has|contains|resulted in)"
        r" (?:at least )?(?P<tokens>\d+) (?:input )?tokens",
    ),
    # --- it ends --------------------------------------------------------------------------
    shape("failed", LogKind.FAILED_TO_START, r"EngineCore failed to start", _VLLM),
    shape("initialization", LogKind.FAILED_TO_START, r"Engine core initialization failed", _VLLM),
    shape("failed", LogKind.FAILED_TO_START, r"WorkerProc failed to start", _VLLM),
    shape("EngineCore", LogKind.DIED, r"EngineCore (?:encountered a fatal error|hit an exception)"),
    shape("WorkerProc", LogKind.DIED, r"WorkerProc hit an exception", _VLLM),
    shape("died", LogKind.DIED, r"(?:Worker proc|Engine core proc|Engine loop)\b.*\bdied", _VLLM),
    shape("EngineDeadError", LogKind.DIED, r"EngineDeadError", _VLLM),
    shape("AsyncEngineDeadError", LogKind.DIED, r"AsyncEngineDeadError", _VLLM),
    shape("Background", LogKind.DIED, r"Background loop (?:has errored|is stopped)", _VLLM),
)
