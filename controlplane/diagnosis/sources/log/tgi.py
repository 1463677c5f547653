"""What Text Generation Inference's launcher, router and shards write."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_TGI = "tgi"

SHAPES = (
    shape("text_generation_launcher", LogKind.STARTING, r"launcher: Args \{", _TGI),
    shape(
        "permits",
        LogKind.REJECTED,
        r"text_generation_router\S*.*no permits available",
        _TGI,
        limit="max_concurrent_requests",
    ),
    shape(
        "overloaded",
        LogKind.REJECTED,
        r"Model is overloaded",
        _TGI,
        limit="max_concurrent_requests",
    ),
    shape(
        "must",
        LogKind.PROMPT_TOO_LONG,
        r"`inputs` (?:tokens \+ `max_new_tokens` )?must (?:be <= (?P<limit>\d+)|have less than "
        r"(?P<limit_tokens>\d+) tokens)\. Given: (?P<tokens>\d+)",
        _TGI,
    ),
    shape("Starting", LogKind.WEIGHTS_LOADING, r"text_generation_launcher.*Starting shard", _TGI),
    shape("ready", LogKind.WEIGHTS_LOADED, r"Shard (?:\d+ )?ready in (?P<seconds>[\d.]+\w+)", _TGI),
    shape("Warming", LogKind.WARMUP_STARTED, r"text_generation_router.*Warming up model", _TGI),
    shape(
        "Setting",
        LogKind.KV_CACHE_SIZED,
        r"Setting max batch total tokens to (?P<tokens>\d+)",
        _TGI,
    ),
    shape(
        "KV-cache",
        LogKind.KV_CACHE_SIZED,
        r"KV-cache blocks: (?P<blocks>\d+), size: (?P<block_size>\d+)",
        _TGI,
    ),
    shape(
        "Cuda",
        LogKind.GRAPH_CAPTURE_STARTED,
        r"Cuda Graphs are enabled for sizes",
        _TGI,
    ),
    shape("Connected", LogKind.READY, r"text_generation_router\S*.*\bConnected$", _TGI),
    shape("text_generation_launcher", LogKind.DIED, r"Shard (?:\d+ )?(?:crashed|failed)", _TGI),
    shape("Crashed", LogKind.FAILED_TO_START, r"Webserver Crashed", _TGI),
    shape("signaled", LogKind.DIED, r"Shard process was signaled .*signal (?P<signal>\d+)", _TGI),
)
