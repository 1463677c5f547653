"""Device memory that ran out, as PyTorch, CUDA and HIP say it in versions old and new."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_SIZE = r"[\d.]+ ?(?:[KMGT]i?B|bytes)"

SHAPES = (
    shape(
        "sampler",
        LogKind.OUT_OF_MEMORY,
        r"out of memory occurred when warming up (?P<w_stage>sampler) with (?P<seats>\d+) dummy",
        "vllm",
    ),
    shape(
        "free",
        LogKind.OUT_OF_MEMORY,
        rf"out of memory\. Tried to allocate (?P<wanted_bytes>{_SIZE})\."
        rf".*?GPU (?P<device>\d+) has a total capaci?ty of (?P<total_bytes>{_SIZE}) of which "
        rf"(?P<free_bytes>{_SIZE}) is free"
        rf"(?:.*?this process has (?P<process_bytes>{_SIZE}) memory in use)?"
        rf"(?:.*?(?P<allocated_bytes>{_SIZE}) is allocated by PyTorch)?"
        rf"(?:, with (?P<pool_bytes>{_SIZE}) allocated in private pools)?"
        rf"(?:.*?and (?P<reserved_bytes>{_SIZE}) is reserved by PyTorch but unallocated)?",
    ),
    shape(
        "OOM",
        LogKind.OUT_OF_MEMORY,
        r"allocation failed with OOM on device (?P<device>\d+) while trying to allocate "
        r"(?P<wanted_bytes>\d+) bytes"
        r"(?: \(free: (?P<free_bytes>\d+), total: (?P<total_bytes>\d+))?",
    ),
    shape(
        "allocate",
        LogKind.OUT_OF_MEMORY,
        rf"out of memory\. Tried to allocate (?P<wanted_bytes>{_SIZE})"
        rf"(?: \((?:GPU|NPU|XPU) (?P<device>\d+); (?P<total_bytes>{_SIZE}) total capacity; "
        rf"(?P<allocated_bytes>{_SIZE}) already allocated; (?:{_SIZE} current active; )?"
        rf"(?P<free_bytes>{_SIZE}) free; "
        rf"(?P<pool_bytes>{_SIZE}) (?:reserved in total by PyTorch|cached))?",
    ),
    shape(
        "exceed allowed memory",
        LogKind.OUT_OF_MEMORY,
        r"Allocation on device (?P<device>\d+) would exceed allowed memory"
        rf"(?:.*?Currently allocated +: (?P<allocated_bytes>{_SIZE}))?"
        rf"(?:.*?Requested +: (?P<wanted_bytes>{_SIZE}))?"
        rf"(?:.*?Device limit +: (?P<total_bytes>{_SIZE}))?"
        rf"(?:.*?Free \(according to CUDA\) *: (?P<free_bytes>{_SIZE}))?",
    ),
    shape(
        "MPS",
        LogKind.OUT_OF_MEMORY,
        rf"MPS backend out of memory \(MPS allocated: (?P<allocated_bytes>{_SIZE}).*?"
        rf"max allowed: (?P<total_bytes>{_SIZE})\)\. Tried to allocate (?P<wanted_bytes>{_SIZE})",
    ),
    shape(
        "RESOURCE_EXHAUSTED",
        LogKind.OUT_OF_MEMORY,
        r"RESOURCE_EXHAUSTED:(?:.*?(?:[Aa]ttempting to (?:allocate|reserve)|[Oo]ut of memory "
        r"allocating|allocate) (?P<wanted_bytes>[\d.]+ ?[KMG]?i?B?)\b)?"
        r"(?:.*?There are (?P<free_bytes>[\d.]+[KMG]) free)?",
    ),
    shape(
        "OutOfMemory Requested",
        LogKind.OUT_OF_MEMORY,
        r"OutOfMemory \(Requested size was (?P<wanted_bytes>\d+) bytes",
    ),
    shape(
        "PT_DEVMEM",
        LogKind.OUT_OF_MEMORY,
        r"PT_DEVMEM Allocation failed for size::(?P<wanted_bytes>\d+)",
    ),
    shape("UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", LogKind.OUT_OF_MEMORY, r"OUT_OF_DEVICE_MEMORY"),
    shape("UR_RESULT_ERROR_OUT_OF_RESOURCES", LogKind.OUT_OF_MEMORY, r"OUT_OF_RESOURCES"),
    shape("HSA_STATUS_ERROR_OUT_OF_RESOURCES", LogKind.OUT_OF_MEMORY, r"OUT_OF_RESOURCES"),
    shape(
        "OutOfMemoryError",
        LogKind.OUT_OF_MEMORY,
        r"\bOutOfMemoryError\b",
    ),
    shape("memory", LogKind.OUT_OF_MEMORY, r"(?:CUDA|HIP|NPU|XPU)(?: [Ee]rror:)? out of memory"),
    shape(
        "memory", LogKind.OUT_OF_MEMORY, r"(?:CUDA|HIP) (?:runtime |driver )?error.*out of memory"
    ),
    shape("cudaErrorMemoryAllocation", LogKind.OUT_OF_MEMORY, r"cudaErrorMemoryAllocation"),
    shape("hipErrorOutOfMemory", LogKind.OUT_OF_MEMORY, r"hipErrorOutOfMemory"),
    shape("CUBLAS_STATUS_ALLOC_FAILED", LogKind.OUT_OF_MEMORY, r"CUBLAS_STATUS_ALLOC_FAILED"),
    shape("ErrorOutOfDeviceMemory", LogKind.OUT_OF_MEMORY, r"ErrorOutOfDeviceMemory"),
    shape(
        "kIOGPUCommandBufferCallbackErrorOutOfMemory",
        LogKind.OUT_OF_MEMORY,
        r"Insufficient Memory",
    ),
    shape("memory", LogKind.OUT_OF_MEMORY, r"Cuda failure.*out of memory"),
    shape("memory", LogKind.OUT_OF_MEMORY, r"cuMem\w+ .*out of memory"),
    shape("CUDNN_STATUS_ALLOC_FAILED", LogKind.OUT_OF_MEMORY, r"CUDNN_STATUS_ALLOC_FAILED"),
    shape(
        "handle",
        LogKind.OUT_OF_MEMORY,
        r"Not enough memory to handle (?P<tokens>\d+) (?:prefill|total) tokens",
        "tgi",
        stage="warmup",
    ),
)
