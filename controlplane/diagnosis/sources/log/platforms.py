"""What TensorRT-LLM, Ray Serve, Kubernetes, Dynamo and caches beside an engine write."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_TRTLLM = "trtllm"

SHAPES = (
    # --- TensorRT-LLM ---------------------------------------------------------------------
    shape(
        "MemUsageChange",
        LogKind.KV_CACHE_SIZED,
        r"Allocated (?P<bytes>[\d.]+ GiB) for max tokens in paged KV cache \((?P<tokens>\d+)\)",
        _TRTLLM,
    ),
    shape("fit", LogKind.NO_ROOM, r"Scheduler could not fit any request", _TRTLLM),
    shape(
        "TensorRT-LLM",
        LogKind.STARTING,
        r"TensorRT-LLM version: (?P<w_version>\d[\w.+-]*)",
        _TRTLLM,
    ),
    shape(
        "offset Server delay",
        LogKind.CLOCK_OFFSET,
        r"Server: (?P<w_server>\S+), delay: (?P<delay_seconds>[\d.]+ s)econd, "
        r"offset: (?P<offset>-?[\d.]+) second",
        _TRTLLM,
    ),
    # --- which replica a router picks -----------------------------------------------------
    shape(
        "KvCacheAwareRouter picked",
        LogKind.ROUTED,
        r"server (?P<w_picked>\S+) picked, matched_tokens=\[(?P<w_matched>[\d, ]*)\]"
        r"(?:.*?padded_tokens=(?P<tokens>\d+))?(?:.*?workloads=\[(?P<w_load>[\d, ]*)\])?",
        _TRTLLM,
    ),
    shape(
        "picked cache_hits",
        LogKind.ROUTED,
        r"cache_hits=\[(?P<w_matched>[\d, ]*)\](?:.*?load=\[(?P<w_load>[\d, ]*)\])?"
        r".*?picked=(?P<w_picked>\S+)",
    ),
    shape(
        "Selected worker_id",
        LogKind.ROUTED,
        r"Selected worker: worker_id=(?P<w_picked>\d+)(?:.*?dp_rank=(?P<dp_rank>\d+))?"
        r"(?:.*?cached blocks: (?P<cached_blocks>\d+))?",
    ),
    # --- moving KV ------------------------------------------------------------------------
    shape(
        "LMCache",
        LogKind.TRANSFER,
        r"(?P<w_what>Retrieved|Stored) (?P<tokens>\d+) out of .*?tokens"
        r"(?:.*?size: (?P<bytes>[\d.]+ gb))?(?:.*?cost (?P<ms>[\d.]+) ms)?"
        r"(?:.*?throughput: (?P<gib_per_second>[\d.]+) GB/s)?",
    ),
    shape(
        "xfer Time",
        LogKind.TRANSFER,
        r"Time to (?P<w_what>init xfer|prepped xfer|post xfer): (?P<ms>[\d.]+) ?ms",
    ),
    shape(
        "Total write time",
        LogKind.TRANSFER,
        r"Total time for (?P<w_what>write): (?P<ms>[\d.]+) ?ms",
    ),
    shape(
        "LMCache hit tokens",
        LogKind.CACHE_ASKED,
        r"Reqid: (?P<w_request_id>[\w-]+), Total tokens (?P<tokens>\d+), LMCache hit tokens: "
        r"(?P<hits>\d+)",
    ),
    shape("NIXL", LogKind.TRANSFER_FAILED, r"(?i)NIXL.*(?:transfer|handshake).*(?:failed|error)"),
    shape("Mooncake", LogKind.TRANSFER_FAILED, r"(?i)mooncake.*(?:transfer|session).*failed"),
    # --- replicas -------------------------------------------------------------------------
    shape(
        "replicas",
        LogKind.SCALED,
        r"(?P<w_what>Upscaling|Downscaling) Deployment\(name='(?P<w_deployment>[^']+)'.*?"
        r"from (?P<from>\d+) to (?P<to>\d+) replicas"
        r"(?:.*?ongoing requests: (?P<ongoing>[\d.]+))?",
    ),
    shape(
        "replicas",
        LogKind.REPLICA_LATE,
        r"Deployment '(?P<w_deployment>[^']+)'.*?(?P<num>\d+) replicas that have taken more "
        r"than (?P<seconds>\d+s) to (?P<w_what>be scheduled|initialize|start up)",
    ),
    shape(
        "Scaled",
        LogKind.SCALED,
        r"Scaled (?P<w_what>up|down) replica set (?P<w_deployment>\S+)(?: from (?P<from>\d+))? to "
        r"(?P<to>\d+)",
    ),
    shape(
        "image pulled",
        LogKind.IMAGE_PULLED,
        r"Successfully pulled image \S+ in (?P<seconds>[\dhms.]+)",
    ),
    shape("FailedScheduling", LogKind.REPLICA_LATE, r"FailedScheduling", what="be scheduled"),
    shape(
        "Readiness",
        LogKind.WARNING,
        r"(?P<w_what>Readiness|Liveness|Startup) probe failed",
    ),
    shape("Liveness", LogKind.WARNING, r"(?P<w_what>Liveness) probe failed"),
)
