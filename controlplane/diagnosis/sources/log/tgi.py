"""What Text Generation Inference's launcher, router and shards write."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_TGI = "tgi"

SHAPES = (
    shape(
        "permits",
        LogKind.REJECTED,
        r"text_generation_router\S*.*no permits available",
        _TGI,
        limit="max_concurrent_requests",
    ),
    shape("overloaded", LogKind.REJECTED, r"Model is overloaded", _TGI),
    shape("Shard", LogKind.WEIGHTS_LOADED, r"Shard ready in (?P<seconds>\S+)", _TGI),
    shape("Warming", LogKind.WARMUP_STARTED, r"Warming up model", _TGI),
    shape(
        "prefill",
        LogKind.OUT_OF_MEMORY,
        r"Not enough memory to handle (?P<tokens>\d+) prefill tokens",
        _TGI,
        stage="warmup",
    ),
    shape(
        "Setting",
        LogKind.KV_CACHE_SIZED,
        r"Setting max batch total tokens to (?P<tokens>\d+)",
        _TGI,
    ),
    shape("Connected", LogKind.READY, r"text_generation_router\S*.*\bConnected$", _TGI),
)
