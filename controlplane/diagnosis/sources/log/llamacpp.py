"""What llama.cpp's server writes, in builds old and new."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_LLAMA = "llama.cpp"
_MIB = r"[\d.]+ ?[KMG]i?B"

SHAPES = (
    # --- it starts ------------------------------------------------------------------------
    shape("build_info", LogKind.STARTING, r"build_info: (?P<w_version>b\d+)", _LLAMA),
    shape("build", LogKind.STARTING, r"\bbuild: (?P<w_version>\d+) \(", _LLAMA),
    shape(
        "loading model",
        LogKind.WEIGHTS_LOADING,
        r"loading model tensors|load_model: loading model",
        _LLAMA,
    ),
    shape(
        "device using free",
        LogKind.DEVICE_MEMORY_FREE,
        rf"using device (?P<w_device>\S+) .*?- (?P<free_bytes>{_MIB}) free",
        _LLAMA,
    ),
    shape(
        "buffer size",
        LogKind.WEIGHTS_LOADED,
        rf"load_tensors: +(?P<w_device>\S+) +(?:model )?buffer size = +(?P<bytes>{_MIB})",
        _LLAMA,
    ),
    shape(
        "buffer KV size",
        LogKind.KV_CACHE_SIZED,
        rf"(?P<w_device>\S+) +KV buffer size = +(?P<bytes>{_MIB})",
        _LLAMA,
    ),
    shape(
        "cells size",
        LogKind.KV_CACHE_SIZED,
        rf"llama_kv_cache\w*: size = +(?P<bytes>{_MIB}) \( *(?P<tokens>\d+) cells",
        _LLAMA,
    ),
    shape("self KV", LogKind.KV_CACHE_SIZED, rf"KV self size +=? +(?P<bytes>{_MIB})", _LLAMA),
    shape(
        "compute buffer",
        LogKind.MEMORY_SPLIT,
        rf"(?P<w_device>\S+) +compute buffer size = +(?P<activation_bytes>{_MIB})",
        _LLAMA,
    ),
    shape("warming", LogKind.WARMUP_STARTED, r"warming up the model", _LLAMA),
    shape("loaded", LogKind.READY, r"(?:main|llama_server): model loaded", _LLAMA),
    shape(
        "listening",
        LogKind.READY,
        r"(?:server is|llama_server:) listening on|HTTP server listening",
        _LLAMA,
    ),
    # --- a request ------------------------------------------------------------------------
    shape(
        "similarity",
        LogKind.SLOT_CHOSEN,
        r"selected slot by (?:LCP|lcs) similarity.*?(?:sim_best|similarity|f_sim_best) = "
        r"(?P<similarity>[\d.]+)(?:.*?f_keep = (?P<kept>[\d.]+))?",
        _LLAMA,
        by="similarity",
    ),
    shape("LRU", LogKind.SLOT_CHOSEN, r"selected slot by (?:LRU|lru)", _LLAMA, by="LRU"),
    shape("lru", LogKind.SLOT_CHOSEN, r"selected slot by lru", _LLAMA, by="LRU"),
    shape(
        "launch_slot_ processing", LogKind.REQUEST_BEGAN, r"processing task(?:, is_child|$)", _LLAMA
    ),
    shape("processing", LogKind.REQUEST_BEGAN, r"slot is processing task", _LLAMA),
    shape(
        "stop",
        LogKind.REQUEST_ENDED,
        r"stop processing: (?:n_tokens|n_past) = (?P<tokens>\d+)"
        r"(?:, truncated = (?P<truncated>\d))?",
        _LLAMA,
    ),
    shape("idle", LogKind.IDLE, r"all slots are idle", _LLAMA),
    shape(
        "cancel",
        LogKind.CLIENT_GONE,
        r"cancel task, id_task = (?P<w_request_id>\d+)",
        _LLAMA,
    ),
    shape(
        "n_ctx_slot prompt",
        LogKind.PROMPT_STARTED,
        r"new prompt, n_ctx_slot = (?P<context>\d+).*?(?:task\.n_tokens|n_prompt_tokens) = "
        r"(?P<tokens>\d+)",
        _LLAMA,
    ),
    shape(
        "processing progress",
        LogKind.PROMPT_PROGRESS,
        r"prompt processing(?: progress)?, (?:n_tokens|n_past) = +(?P<tokens>\d+),"
        r".*?progress = (?P<progress>[\d.]+)(?:, t = +(?P<seconds>[\d.]+ s))?",
        _LLAMA,
    ),
    shape(
        "eval",
        LogKind.PROMPT_EVALUATED,
        r"prompt eval time *= +(?P<seconds>[\d.]+ ms) / +(?P<tokens>\d+) tokens"
        r"(?:.*?(?<![\d.])(?P<per_second>[\d.]+) tokens per second)?",
        _LLAMA,
    ),
    shape(
        "eval",
        LogKind.GENERATED,
        r"(?<!prompt )eval time *= +(?P<seconds>[\d.]+ ms) / +(?P<tokens>\d+) (?:tokens|runs)"
        r"(?:.*?(?<![\d.])(?P<per_second>[\d.]+) tokens per second)?",
        _LLAMA,
    ),
    shape(
        "acceptance",
        LogKind.GENERATED,
        r"draft acceptance(?: rate)? = (?P<acceptance>[\d.]+) \( *(?P<accepted>\d+) accepted / +"
        r"(?P<drafted>\d+) generated\)",
        _LLAMA,
    ),
    # --- what is kept of prompts ----------------------------------------------------------
    shape(
        "re-processing",
        LogKind.FULL_REPROCESS,
        r"forcing full prompt re-processing(?: due to (?P<w_why>[^(]+))?",
        _LLAMA,
    ),
    shape("memory_seq_rm", LogKind.CACHE_RESET, r"memory_seq_rm \[0, end\)", _LLAMA),
    shape("memory_seq_rm", LogKind.CACHE_CUT, r"memory_seq_rm \[(?P<from>\d+), end\)", _LLAMA),
    shape(
        "rm", LogKind.CACHE_RESET, r"kv cache rm (?:- )?\[(?:0, end\)|p0, end\).* p0=0$)", _LLAMA
    ),
    shape("rm", LogKind.CACHE_CUT, r"kv cache rm (?:- )?\[(?P<from>\d+), end\)", _LLAMA),
    shape("rm", LogKind.CACHE_CUT, r"kv cache rm \[p0, end\).* p0=(?P<from>\d+)", _LLAMA),
    shape(
        "saving",
        LogKind.HOST_STATE_SAVED,
        rf"saving prompt with length (?P<tokens>\d+), total state size = (?P<bytes>{_MIB})",
        _LLAMA,
    ),
    shape(
        "checkpoint",
        LogKind.HOST_STATE_SAVED,
        r"(?:created|saved) context checkpoint (?P<checkpoint>\d+) of (?P<checkpoints>\d+)"
        rf".*?size = (?P<bytes>{_MIB})",
        _LLAMA,
        what="checkpoint",
    ),
    shape(
        "state",
        LogKind.HOST_STATE_SAVED,
        rf"cache state: (?P<prompts>\d+) prompts, (?P<bytes>{_MIB})"
        rf"(?: \(limits: (?P<limit_bytes>{_MIB}))?",
        _LLAMA,
        what="all",
    ),
    shape(
        "invalidated",
        LogKind.CACHE_EVICTED,
        rf"erased invalidated context checkpoint.*?size = (?P<bytes>{_MIB})",
        _LLAMA,
        what="checkpoint",
    ),
    shape(
        "oldest",
        LogKind.CACHE_EVICTED,
        rf"removing oldest entry \(size = (?P<bytes>{_MIB})\)",
        _LLAMA,
        what="prompt",
    ),
    shape(
        "n_discard shift",
        LogKind.CONTEXT_SHIFTED,
        r"context shift, .*n_discard = (?P<discarded>\d+)",
        _LLAMA,
    ),
    # --- no room --------------------------------------------------------------------------
    shape(
        "retrying",
        LogKind.NO_ROOM,
        r"failed to find free space in the KV cache, retrying with smaller (?:batch size|n_batch)",
        _LLAMA,
    ),
    shape(
        "find slot failed",
        LogKind.NO_ROOM,
        r"failed to find a (?:memory|KV cache) slot for (?:u?batch|ubatch) of size (?P<tokens>\d+)",
        _LLAMA,
    ),
    shape(
        "exceeds context",
        LogKind.PROMPT_TOO_LONG,
        r"(?:request|input|prompt) (?:\((?P<tokens>\d+) tokens\) )?exceeds the available context "
        r"size(?: \((?P<limit>\d+) tokens\))?",
        _LLAMA,
    ),
    shape("large", LogKind.PROMPT_TOO_LONG, r"input is too large to process", _LLAMA),
    shape(
        "cudaMalloc",
        LogKind.OUT_OF_MEMORY,
        rf"allocating (?P<wanted_bytes>{_MIB}) on device (?P<device>\d+): cudaMalloc failed: "
        r"out of memory",
        _LLAMA,
    ),
    shape(
        "buffer",
        LogKind.OUT_OF_MEMORY,
        r"failed to allocate (?P<w_buffer>\w+) buffer of size (?P<wanted_bytes>\d+)",
        _LLAMA,
    ),
    shape(
        "allocate",
        LogKind.OUT_OF_MEMORY,
        r"(?:unable|failed) to allocate "
        r"(?P<w_buffer>compute buffers|buffer for kv cache|\w+ buffer)",
        _LLAMA,
    ),
    shape(
        "exceeded",
        LogKind.OUT_OF_MEMORY,
        r"Context size has been exceeded",
        _LLAMA,
        stage="decode",
    ),
    shape(
        "Bytes memory device",
        LogKind.OUT_OF_MEMORY,
        r"can't (?:malloc|allocate) (?P<wanted_bytes>\d+ Bytes) (?:of )?memory on device",
        _LLAMA,
    ),
    shape(
        "ggml_vulkan allocation",
        LogKind.OUT_OF_MEMORY,
        r"Device memory allocation of size (?P<wanted_bytes>\d+) failed",
        _LLAMA,
    ),
    shape("full KV", LogKind.OUT_OF_MEMORY, r"KV cache is full", _LLAMA, stage="decode"),
    # --- it ends --------------------------------------------------------------------------
    shape(
        "load model", LogKind.FAILED_TO_START, r"failed to load model|unable to load model", _LLAMA
    ),
    shape("create", LogKind.FAILED_TO_START, r"failed to create context", _LLAMA),
    shape("exiting", LogKind.FAILED_TO_START, r"exiting due to model loading error", _LLAMA),
    shape("exiting", LogKind.DIED, r"update_slots - exiting main loop", _LLAMA),
    shape("GGML_ASSERT", LogKind.DIED, r"GGML_ASSERT\(", _LLAMA),
)
