"""What is exported beside an engine's own series: its process, its HTTP front end, its device."""

from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.signal import Signal

_MEBIBYTES = 1024.0 * 1024.0
_PERCENT = 0.01
_NO_WORK = frozenset({"/metrics", "/health", "/ping", "/version", "none"})
_GPU = {"gpu": "gpu", "gpu_uuid": "gpu"}

PROCESS = AliasTable(
    engine=None,
    prefixes=("process_",),
    aliases=(
        Alias("process_start_time_seconds", Signal.PROCESS_STARTED),
        Alias("process_cpu_seconds_total", Signal.PROCESS_CPU),
        Alias("process_resident_memory_bytes", Signal.HOST_MEMORY_USED),
    ),
)

HTTP = AliasTable(
    engine=None,
    prefixes=("http_",),
    aliases=(Alias("http_requests_total", Signal.HTTP_ANSWERED, keep={"status": "code"}),),
)
"""Of the FastAPI instrumentator that vLLM and others use: `status` is 2xx, 4xx, 5xx."""

DEVICE = AliasTable(
    engine=None,
    prefixes=("DCGM_", "nv_gpu_"),
    aliases=(
        Alias(
            "DCGM_FI_DEV_FB_USED",
            Signal.DEVICE_MEMORY_USED,
            factor=_MEBIBYTES,
            keep=_GPU,
        ),
        Alias("nv_gpu_memory_used_bytes", Signal.DEVICE_MEMORY_USED, keep=_GPU),
        Alias(
            "DCGM_FI_DEV_FB_FREE",
            Signal.DEVICE_MEMORY_FREE,
            factor=_MEBIBYTES,
            keep=_GPU,
        ),
        Alias(
            "DCGM_FI_DEV_GPU_UTIL",
            Signal.DEVICE_USAGE,
            factor=_PERCENT,
            keep=_GPU,
        ),
        Alias("nv_gpu_utilization", Signal.DEVICE_USAGE, keep=_GPU),
    ),
)
"""NVIDIA's DCGM exporter (MiB, percent) and Triton (bytes, ratio)."""
