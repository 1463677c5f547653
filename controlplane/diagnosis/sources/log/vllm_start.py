"""What vLLM writes while it starts, V0 and V1, in the order of its stages."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_VLLM = "vllm"
_GIB = r"-?[\d.]+ ?[KMGT]i?B"

SHAPES = (
    shape(
        "Initializing",
        LogKind.STARTING,
        r"Initializing an? (?:V\d )?LLM engine (?:\(v(?P<w_version>[\w.+-]+)\)|with config)"
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
    shape(
        "Using max len", LogKind.STARTING, r"Using max model len (?P<max_model_len>[\d,]+)", _VLLM
    ),
    shape("version", LogKind.STARTING, r"█.* version (?P<w_version>\d[\w.+-]*)", _VLLM),
    shape(
        "P2P access cache",
        LogKind.PEERS_CHECKED,
        r"(?P<w_what>generating|reading) GPU P2P access cache",
        _VLLM,
    ),
    # --- free memory ----------------------------------------------------------------------
    shape(
        "desired",
        LogKind.FREE_MEMORY_TOO_LITTLE,
        r"Free memory on device (?P<w_device>\S+ )?\((?P<free_gib>[\d.]+)/"
        r"(?P<total_bytes>[\d.]+ GiB)\) on startup is less than desired GPU memory utilization "
        r"\((?P<share>[\d.]+), (?P<wanted_bytes>[\d.]+ GiB)\)",
        _VLLM,
    ),
    shape(
        "Initial",
        LogKind.DEVICE_MEMORY_FREE,
        rf"Initial free memory:? (?P<free_bytes>{_GIB})",
        _VLLM,
    ),
    # --- weights --------------------------------------------------------------------------
    shape(
        "load Starting",
        LogKind.WEIGHTS_LOADING,
        r"Starting to load model (?P<w_model>\S+?)\.{3}",
        _VLLM,
    ),
    shape(
        "checkpoint",
        LogKind.WEIGHTS_LOADING,
        r"Loading \w+ (?:\w+ )?checkpoint shards:\s+\d+% Completed \| (?P<done>\d+)/(?P<total>\d+)",
    ),
    shape(
        "took",
        LogKind.WEIGHTS_LOADED,
        rf"(?:Model loading|Loading model weights) took (?P<bytes>{_GIB})(?: memory)?"
        r"(?: and (?P<seconds>[\d.]+ seconds))?",
        _VLLM,
    ),
    shape("took", LogKind.WEIGHTS_LOADED, r"Loading weights took (?P<seconds>[\d.]+ seconds)"),
    shape(
        "downloading weights",
        LogKind.DOWNLOADED,
        r"Time spent downloading weights for .*?: (?P<seconds>[\d.]+ seconds)",
        _VLLM,
    ),
    # --- profile --------------------------------------------------------------------------
    shape(
        "compile",
        LogKind.COMPILED,
        r"torch\.compile (?:takes|took) (?P<seconds>[\d.]+ s)",
        _VLLM,
    ),
    shape(
        "Dynamo transform",
        LogKind.COMPILED_PART,
        r"(?P<w_what>Dynamo bytecode transform) time: (?P<seconds>[\d.]+ s)",
        _VLLM,
    ),
    shape(
        "Compiling graph takes",
        LogKind.COMPILED_PART,
        r"Compiling a (?P<w_what>graph for .+?) takes (?P<seconds>[\d.]+ s)",
        _VLLM,
    ),
    shape(
        "load compiled graph took",
        LogKind.COMPILED_PART,
        r"load the (?P<w_what>compiled graph\(s\) for .+?) from the cache, took "
        r"(?P<seconds>[\d.]+ s)",
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
        "warmup",
        LogKind.PROFILING,
        r"Initial profiling/warmup run took (?P<seconds>[\d.]+ s)",
        _VLLM,
    ),
    shape(
        "profiling",
        LogKind.PROFILING,
        r"Memory profiling (?:takes|took) (?P<seconds>[\d.]+ seconds)",
        _VLLM,
    ),
    shape("profiling", LogKind.PROFILING, r"Memory profiling results:", _VLLM),
    shape(
        "Profiling",
        LogKind.PROFILING,
        r"Profiling (?P<w_what>CUDA graph memory)",
        _VLLM,
    ),
    # --- who gets what --------------------------------------------------------------------
    shape(
        "weights",
        LogKind.MEMORY_SPLIT,
        rf"model weights take (?P<weights_bytes>{_GIB}); non_torch_memory takes "
        rf"(?P<other_bytes>{_GIB}); PyTorch activation peak memory takes "
        rf"(?P<activation_bytes>{_GIB}); the rest of the memory reserved for KV Cache is "
        rf"(?P<kv_bytes>{_GIB})",
        _VLLM,
    ),
    shape("weights", LogKind.MEMORY_SPLIT, rf"model weights take\s+(?P<weights_bytes>{_GIB})$"),
    shape(
        "activation",
        LogKind.MEMORY_SPLIT,
        rf"PyTorch activation peak memory\s+(?P<activation_bytes>{_GIB})$",
    ),
    shape(
        "total_gpu_memory",
        LogKind.MEMORY_SPLIT,
        rf"total_gpu_memory \((?P<total_bytes>{_GIB})\) x gpu_memory_utilization "
        rf"\((?P<share>[\d.]+)\) = (?P<allowed_bytes>{_GIB})",
        _VLLM,
    ),
    shape(
        "total_gpu_memory",
        LogKind.MEMORY_SPLIT,
        rf"total_gpu_memory\s+(?P<total_bytes>{_GIB})$",
        _VLLM,
    ),
    shape(
        "Actual",
        LogKind.MEMORY_SPLIT,
        r"Free memory on device (?:\S+ )?\((?P<free_gib>[\d.]+)/(?P<total_bytes>[\d.]+ GiB)\) on "
        r"startup\..*?Actual usage is (?P<weights_bytes>[\d.]+ GiB) for weights?, "
        r"(?P<activation_bytes>[\d.]+ GiB) for peak activation, (?P<other_bytes>[\d.]+ GiB) for "
        r"non-torch memory(?:, and (?P<graph_bytes>-?[\d.]+ GiB) for CUDAGraph)?",
        _VLLM,
    ),
    shape(
        "Estimated",
        LogKind.MEMORY_SPLIT,
        rf"Estimated CUDA graph memory: (?P<graph_bytes>{_GIB})",
        _VLLM,
    ),
    # --- KV cache -------------------------------------------------------------------------
    shape(
        "Available",
        LogKind.KV_CACHE_SIZED,
        rf"Available KV cache memory: (?P<bytes>{_GIB})",
        _VLLM,
    ),
    shape(
        "available_kv_cache_memory",
        LogKind.KV_CACHE_SIZED,
        rf"available_kv_cache_memory\s+(?P<bytes>{_GIB})$",
        _VLLM,
    ),
    shape(
        "size KV cache",
        LogKind.KV_CACHE_SIZED,
        r"\b[A-Z]+ KV cache size: (?P<tokens>[\d,]*\d) tokens"
        r"(?:, Maximum concurrency for (?P<max_model_len>[\d,]+) tokens per request: "
        r"(?P<concurrency>[\d.,]+)x)?",
        _VLLM,
    ),
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
        r"# (?:GPU|cuda|CUDA|HPU|NPU|XPU|neuron|rocm) blocks: (?P<blocks>[\d,]*\d)"
        r"(?:, # CPU blocks: (?P<cpu_blocks>[\d,]*\d))?",
        _VLLM,
    ),
    shape(
        "num_gpu_blocks",
        LogKind.KV_CACHE_SIZED,
        r"initialization after num_gpu_blocks is: (?P<blocks>\d+)",
        _VLLM,
    ),
    shape(
        "seq KV max",
        LogKind.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<max_model_len>\d+)\) is larger than the maximum number of tokens that "
        r"can be stored in KV cache \((?P<tokens>\d+)\)",
        _VLLM,
    ),
    shape(
        "needed",
        LogKind.KV_CACHE_TOO_SMALL,
        r"max seq len \((?P<max_model_len>\d+)\),? \(?(?P<needed_bytes>[\d.]+ GiB) KV cache is "
        r"needed, which is larger than the available KV cache memory "
        r"\((?P<available_bytes>-?[\d.]+ GiB)\)"
        r"(?:.*?estimated maximum model length is (?P<tokens>\d+))?",
        _VLLM,
    ),
    shape(
        "blocks cache No",
        LogKind.KV_CACHE_TOO_SMALL,
        r"No available memory for the cache blocks",
        _VLLM,
    ),
    # --- graphs, warm-up, ready -----------------------------------------------------------
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
    shape("EngineCore failed start", LogKind.FAILED_TO_START, r"EngineCore failed to start", _VLLM),
    shape("initialization", LogKind.FAILED_TO_START, r"Engine core initialization failed", _VLLM),
    shape("WorkerProc failed", LogKind.FAILED_TO_START, r"WorkerProc failed to start", _VLLM),
)
