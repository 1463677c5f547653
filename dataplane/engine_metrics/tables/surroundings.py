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
        Alias(exported="process_start_time_seconds", signal=Signal.PROCESS_STARTED),
        Alias(exported="process_cpu_seconds_total", signal=Signal.PROCESS_CPU),
        Alias(exported="process_resident_memory_bytes", signal=Signal.HOST_MEMORY_USED),
    ),
)

HTTP = AliasTable(
    engine=None,
    prefixes=("http_",),
    aliases=(
        Alias(exported="http_requests_total", signal=Signal.HTTP_ANSWERED, keep={"status": "code"}),
    ),
)
"""Of the FastAPI instrumentator that vLLM and others use: `status` is 2xx, 4xx, 5xx."""

DEVICE = AliasTable(
    engine=None,
    prefixes=("DCGM_", "nv_gpu_"),
    aliases=(
        Alias(
            exported="DCGM_FI_DEV_FB_USED",
            signal=Signal.DEVICE_MEMORY_USED,
            factor=_MEBIBYTES,
            keep=_GPU,
        ),
        Alias(exported="nv_gpu_memory_used_bytes", signal=Signal.DEVICE_MEMORY_USED, keep=_GPU),
        Alias(
            exported="DCGM_FI_DEV_FB_FREE",
            signal=Signal.DEVICE_MEMORY_FREE,
            factor=_MEBIBYTES,
            keep=_GPU,
        ),
        Alias(
            exported="DCGM_FI_DEV_GPU_UTIL",
            signal=Signal.DEVICE_USAGE,
            factor=_PERCENT,
            keep=_GPU,
        ),
        Alias(exported="nv_gpu_utilization", signal=Signal.DEVICE_USAGE, keep=_GPU),
    ),
)
"""NVIDIA's DCGM exporter (MiB, percent) and Triton (bytes, ratio)."""
