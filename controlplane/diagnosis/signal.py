"""The signals: what can be known of an engine over time, whatever engine and source it is from.

Each has one name, one unit and one kind here. Sources translate (`aliases`), and say under which
name they found it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What a value counts. Sources convert at the edge: a ratio is 0 to 1, a time is in seconds."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    PER_SECOND = "1/s"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    RATIO = "ratio"
    BLOCKS = "blocks"
    COUNT = "count"
    UNIX_SECONDS = "unix s"


class SignalKind(StrEnum):
    """How readings of it behave."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Only grows, but for a restart of what counts."""
    HISTOGRAM = "histogram"
    """Counts by upper bound, with sum and count; all counters."""


@dataclass(frozen=True, slots=True)
class SignalTerms:
    """What a signal is measured in."""

    unit: Unit
    kind: SignalKind
    meaning: str


_GAUGE, _COUNTER, _HISTOGRAM = SignalKind.GAUGE, SignalKind.COUNTER, SignalKind.HISTOGRAM


class Signal(StrEnum):
    """One name for one thing."""

    RUNNING = "running"
    WAITING = "waiting"
    WAITING_BY_REASON = "waiting_by_reason"
    SWAPPED = "swapped"
    DEFERRED = "deferred"
    RETRACTED = "retracted"
    PENDING_PROMPT_TOKENS = "pending_prompt_tokens"
    BATCH_NEW_REQUESTS = "batch_new_requests"
    BATCH_COMPUTED_TOKENS = "batch_computed_tokens"
    BATCH_CACHED_TOKENS = "batch_cached_tokens"
    PAUSED = "paused"
    KV_USAGE = "kv_usage"
    HOST_KV_USAGE = "host_kv_usage"
    KV_CAPACITY = "kv_capacity"
    KV_EVICTABLE = "kv_evictable"
    KV_AVAILABLE = "kv_available"
    KV_BLOCK_SIZE = "kv_block_size"
    KV_BLOCKS = "kv_blocks"
    KV_BLOCKS_FREE = "kv_blocks_free"
    KV_BLOCKS_HELD = "kv_blocks_held"
    KV_BLOCKS_CACHED = "kv_blocks_cached"
    CONTEXT_TOKENS = "context_tokens"
    CONTEXT_HIGH_WATER = "context_high_water"
    SEATS = "seats"
    BUSY_SLOTS = "busy_slots"
    PREEMPTIONS = "preemptions"
    LAST_RETRACTED = "last_retracted"
    REQUEST_PREEMPTIONS = "request_preemptions"
    RETRACTED_TOKENS = "retracted_tokens"
    NEW_TOKEN_RATIO = "new_token_ratio"
    PROMPT_TOKENS = "prompt_tokens"
    COMPUTED_PROMPT_TOKENS = "computed_prompt_tokens"
    CACHED_PROMPT_TOKENS = "cached_prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    PROMPT_RATE = "prompt_rate"
    GENERATION_RATE = "generation_rate"
    PROMPT_SECONDS = "prompt_seconds"
    GENERATION_SECONDS = "generation_seconds"
    PREFIX_QUERIES = "prefix_queries"
    PREFIX_HITS = "prefix_hits"
    EXTERNAL_PREFIX_QUERIES = "external_prefix_queries"
    EXTERNAL_PREFIX_HITS = "external_prefix_hits"
    HIT_RATE = "hit_rate"
    EXTERNAL_HIT_RATE = "external_hit_rate"
    MEDIA_HIT_RATE = "media_hit_rate"
    KV_BLOCK_LIFETIME = "kv_block_lifetime"
    KV_BLOCK_IDLE = "kv_block_idle"
    KV_BLOCK_REUSE_GAP = "kv_block_reuse_gap"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"
    ABORTED = "aborted"
    RECEIVED = "received"
    ARRIVAL_RATE = "arrival_rate"
    REPLICAS = "replicas"
    HTTP_ANSWERED = "http_answered"
    CORRUPTED = "corrupted"
    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    QUEUE_TIME = "queue_time"
    PREFILL_TIME = "prefill_time"
    DECODE_TIME = "decode_time"
    STAGE_TIME = "stage_time"
    PROMPT_LENGTH = "prompt_length"
    COMPUTED_LENGTH = "computed_length"
    OUTPUT_LENGTH = "output_length"
    STEP_TIME = "step_time"
    STEP_TOKENS = "step_tokens"
    STEPS = "steps"
    STEP_PROMPT_TOKENS = "step_prompt_tokens"
    STEP_DECODES = "step_decodes"
    DRAFTS = "drafts"
    DRAFT_TOKENS = "draft_tokens"
    ACCEPTED_TOKENS = "accepted_tokens"
    ACCEPTED_BY_POSITION = "accepted_by_position"
    ACCEPTANCE_RATE = "acceptance_rate"
    ACCEPTANCE_LENGTH = "acceptance_length"
    LATE_DRAFT_TOKENS = "late_draft_tokens"
    LATE_ACCEPTED_TOKENS = "late_accepted_tokens"
    SPECULATED_TOKENS = "speculated_tokens"
    SPECULATION_EFFICIENCY = "speculation_efficiency"
    CUDA_GRAPH = "cuda_graph"
    GRAPH_PASSES = "graph_passes"
    UNRELEASED = "unreleased"
    LEAKED = "leaked"
    CANCEL_TO_RELEASE = "cancel_to_release"
    PROMPT_BACKLOG = "prompt_backlog"
    PREFILL_QUEUE = "prefill_queue"
    DECODE_QUEUE = "decode_queue"
    TRANSFER_QUEUE = "transfer_queue"
    TRANSFER_TIME = "transfer_time"
    TRANSFER_SIZE = "transfer_size"
    TRANSFER_FAILURES = "transfer_failures"
    DEVICE_MEMORY_USED = "device_memory_used"
    DEVICE_MEMORY_FREE = "device_memory_free"
    DEVICE_USAGE = "device_usage"
    HOST_MEMORY_USED = "host_memory_used"
    PROCESS_STARTED = "process_started"
    PROCESS_CPU = "process_cpu"
    SLEEPING = "sleeping"
    ENGINE_HEALTHY = "engine_healthy"
    GATEWAY_IN_FLIGHT = "gateway_in_flight"
    GATEWAY_ARRIVED = "gateway_arrived"
    GATEWAY_UNDELIVERED = "gateway_undelivered"
    GATEWAY_QUEUED = "gateway_queued"
    GATEWAY_HELD_BACK_REPLICAS = "gateway_held_back_replicas"
    GATEWAY_PROMPT_TOKENS = "gateway_prompt_tokens"
    GATEWAY_CACHED_TOKENS = "gateway_cached_tokens"
    GATEWAY_OUTPUT_TOKENS = "gateway_output_tokens"
    GATEWAY_OLDEST_QUEUED = "gateway_oldest_queued"
    GATEWAY_REJECTED = "gateway_rejected"
    GATEWAY_ENDED = "gateway_ended"
    GATEWAY_DEGRADED = "gateway_degraded"
    GATEWAY_SLOW_CLIENTS = "gateway_slow_clients"
    ROUTED_IN_FLIGHT = "routed_in_flight"
    GATEWAY_TTFT = "gateway_ttft"
    GATEWAY_TPOT = "gateway_tpot"
    GATEWAY_ITL = "gateway_itl"
    GATEWAY_E2E = "gateway_e2e"
    GATEWAY_QUEUE_TIME = "gateway_queue_time"

    @property
    def terms(self) -> SignalTerms:
        """Its unit, kind and meaning."""
        return _TERMS[self]


_TERMS = {
    Signal.RUNNING: SignalTerms(Unit.REQUESTS, _GAUGE, "in the batch"),
    Signal.WAITING: SignalTerms(Unit.REQUESTS, _GAUGE, "in the engine's own queue"),
    Signal.WAITING_BY_REASON: SignalTerms(
        Unit.REQUESTS, _GAUGE, "the same, apart by what they wait for (label reason)"
    ),
    Signal.SWAPPED: SignalTerms(Unit.REQUESTS, _GAUGE, "moved out to host memory"),
    Signal.PAUSED: SignalTerms(Unit.REQUESTS, _GAUGE, "put aside by the engine"),
    Signal.DEFERRED: SignalTerms(Unit.REQUESTS, _GAUGE, "not considered by the scheduler for now"),
    Signal.RETRACTED: SignalTerms(Unit.REQUESTS, _GAUGE, "retracted, and not back in a batch"),
    Signal.PENDING_PROMPT_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "of prompts that wait"),
    Signal.BATCH_NEW_REQUESTS: SignalTerms(Unit.REQUESTS, _GAUGE, "in one prefill batch"),
    Signal.BATCH_COMPUTED_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "computed in a prefill batch"),
    Signal.BATCH_CACHED_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "reused in a prefill batch"),
    Signal.KV_USAGE: SignalTerms(Unit.RATIO, _GAUGE, "of the KV cache held by active requests"),
    Signal.HOST_KV_USAGE: SignalTerms(Unit.RATIO, _GAUGE, "of the KV cache in host memory"),
    Signal.KV_CAPACITY: SignalTerms(Unit.TOKENS, _GAUGE, "size of the KV cache"),
    Signal.KV_EVICTABLE: SignalTerms(Unit.TOKENS, _GAUGE, "cached and held by nobody"),
    Signal.KV_AVAILABLE: SignalTerms(Unit.TOKENS, _GAUGE, "of the KV cache, free"),
    Signal.KV_BLOCK_SIZE: SignalTerms(Unit.TOKENS, _GAUGE, "of one block"),
    Signal.KV_BLOCKS: SignalTerms(Unit.BLOCKS, _GAUGE, "of the KV cache in all"),
    Signal.KV_BLOCKS_FREE: SignalTerms(Unit.BLOCKS, _GAUGE, "that could be handed out"),
    Signal.KV_BLOCKS_HELD: SignalTerms(Unit.BLOCKS, _GAUGE, "that requests reference"),
    Signal.KV_BLOCKS_CACHED: SignalTerms(Unit.BLOCKS, _GAUGE, "kept for reuse"),
    Signal.CONTEXT_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "in the contexts of the batch"),
    Signal.CONTEXT_HIGH_WATER: SignalTerms(
        Unit.TOKENS, _GAUGE, "the longest context that there ever was"
    ),
    Signal.SEATS: SignalTerms(Unit.REQUESTS, _GAUGE, "that can run at once by configuration"),
    Signal.BUSY_SLOTS: SignalTerms(Unit.REQUESTS, _GAUGE, "of a step, mean since the start"),
    Signal.PREEMPTIONS: SignalTerms(Unit.COUNT, _COUNTER, "preemptions and retractions"),
    Signal.LAST_RETRACTED: SignalTerms(Unit.REQUESTS, _GAUGE, "by the last retraction"),
    Signal.REQUEST_PREEMPTIONS: SignalTerms(Unit.COUNT, _HISTOGRAM, "of one request"),
    Signal.RETRACTED_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "given up by retractions"),
    Signal.NEW_TOKEN_RATIO: SignalTerms(
        Unit.RATIO, _GAUGE, "how cautiously it admits; rises after a retraction"
    ),
    Signal.PROMPT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "of prompts, cached ones included"),
    Signal.COMPUTED_PROMPT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "of prompts, computed"),
    Signal.CACHED_PROMPT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "of prompts, reused"),
    Signal.GENERATION_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "of outputs"),
    Signal.PROMPT_RATE: SignalTerms(Unit.TOKENS_PER_SECOND, _GAUGE, "prefill, as the engine says"),
    Signal.GENERATION_RATE: SignalTerms(
        Unit.TOKENS_PER_SECOND, _GAUGE, "decode, as the engine says"
    ),
    Signal.PROMPT_SECONDS: SignalTerms(Unit.SECONDS, _COUNTER, "spent on prefill"),
    Signal.GENERATION_SECONDS: SignalTerms(Unit.SECONDS, _COUNTER, "spent on decode"),
    Signal.PREFIX_QUERIES: SignalTerms(Unit.TOKENS, _COUNTER, "looked up in the prefix cache"),
    Signal.PREFIX_HITS: SignalTerms(Unit.TOKENS, _COUNTER, "found there"),
    Signal.EXTERNAL_PREFIX_QUERIES: SignalTerms(
        Unit.TOKENS, _COUNTER, "looked up in a cache outside the engine"
    ),
    Signal.EXTERNAL_PREFIX_HITS: SignalTerms(Unit.TOKENS, _COUNTER, "found there"),
    Signal.HIT_RATE: SignalTerms(Unit.RATIO, _GAUGE, "of prefix lookups, of late"),
    Signal.KV_BLOCK_LIFETIME: SignalTerms(
        Unit.SECONDS, _HISTOGRAM, "of a cached block, until it is evicted"
    ),
    Signal.KV_BLOCK_IDLE: SignalTerms(
        Unit.SECONDS, _HISTOGRAM, "that an evicted block was not used"
    ),
    Signal.KV_BLOCK_REUSE_GAP: SignalTerms(Unit.SECONDS, _HISTOGRAM, "between two uses of a block"),
    Signal.EXTERNAL_HIT_RATE: SignalTerms(Unit.RATIO, _GAUGE, "the same, of a cache elsewhere"),
    Signal.MEDIA_HIT_RATE: SignalTerms(Unit.RATIO, _GAUGE, "of lookups of images and the like"),
    Signal.FINISHED: SignalTerms(Unit.REQUESTS, _COUNTER, "answered to their end (label reason)"),
    Signal.FAILED: SignalTerms(Unit.REQUESTS, _COUNTER, "ended by an error (label reason)"),
    Signal.REJECTED: SignalTerms(Unit.REQUESTS, _COUNTER, "refused by a limit (label reason)"),
    Signal.ABORTED: SignalTerms(Unit.REQUESTS, _COUNTER, "given up"),
    Signal.RECEIVED: SignalTerms(Unit.REQUESTS, _COUNTER, "that arrived at the engine"),
    Signal.ARRIVAL_RATE: SignalTerms(Unit.PER_SECOND, _GAUGE, "requests that arrive"),
    Signal.REPLICAS: SignalTerms(Unit.COUNT, _GAUGE, "replicas that take requests, or shall"),
    Signal.HTTP_ANSWERED: SignalTerms(Unit.REQUESTS, _COUNTER, "answered over HTTP (label code)"),
    Signal.CORRUPTED: SignalTerms(Unit.REQUESTS, _COUNTER, "whose logits were no numbers"),
    Signal.TTFT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the first token, at the engine"),
    Signal.ITL: SignalTerms(Unit.SECONDS, _HISTOGRAM, "between tokens, at the engine"),
    Signal.TPOT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "mean of a request's ITL"),
    Signal.E2E: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the last token, at the engine"),
    Signal.QUEUE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "in the engine's queue"),
    Signal.PREFILL_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "from scheduled to first token"),
    Signal.DECODE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "from first to last token"),
    Signal.STAGE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of a request's stage (label stage)"),
    Signal.PROMPT_LENGTH: SignalTerms(Unit.TOKENS, _HISTOGRAM, "of one request's prompt"),
    Signal.COMPUTED_LENGTH: SignalTerms(
        Unit.TOKENS, _HISTOGRAM, "of one request's prompt, what was computed"
    ),
    Signal.OUTPUT_LENGTH: SignalTerms(Unit.TOKENS, _HISTOGRAM, "of one request's output"),
    Signal.STEP_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of a step"),
    Signal.STEP_TOKENS: SignalTerms(Unit.TOKENS, _HISTOGRAM, "of a step"),
    Signal.STEPS: SignalTerms(Unit.COUNT, _COUNTER, "steps"),
    Signal.STEP_PROMPT_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "of prompts in the last step"),
    Signal.STEP_DECODES: SignalTerms(Unit.COUNT, _GAUGE, "decode steps in the last step"),
    Signal.DRAFTS: SignalTerms(Unit.COUNT, _COUNTER, "speculations"),
    Signal.DRAFT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "drafted"),
    Signal.ACCEPTED_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "drafted and accepted"),
    Signal.ACCEPTED_BY_POSITION: SignalTerms(
        Unit.TOKENS, _COUNTER, "the same by place in the draft (label position)"
    ),
    Signal.ACCEPTANCE_RATE: SignalTerms(Unit.RATIO, _GAUGE, "of drafted tokens, of late"),
    Signal.ACCEPTANCE_LENGTH: SignalTerms(Unit.TOKENS, _GAUGE, "selected per verification"),
    Signal.LATE_DRAFT_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "drafted since the last reading"),
    Signal.LATE_ACCEPTED_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "of them accepted"),
    Signal.SPECULATED_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "drafted at a time, as configured"),
    Signal.SPECULATION_EFFICIENCY: SignalTerms(
        Unit.RATIO, _GAUGE, "emitted of as many as would be, were every draft accepted"
    ),
    Signal.CUDA_GRAPH: SignalTerms(Unit.COUNT, _GAUGE, "1 where the last step replayed a graph"),
    Signal.GRAPH_PASSES: SignalTerms(Unit.COUNT, _COUNTER, "forward passes (label mode)"),
    Signal.UNRELEASED: SignalTerms(Unit.REQUESTS, _GAUGE, "finished and not released"),
    Signal.LEAKED: SignalTerms(Unit.REQUESTS, _COUNTER, "not released within the bound"),
    Signal.CANCEL_TO_RELEASE: SignalTerms(
        Unit.SECONDS, _HISTOGRAM, "from a cancel until all is reusable"
    ),
    Signal.PROMPT_BACKLOG: SignalTerms(
        Unit.TOKENS, _GAUGE, "of prompts that are still to be computed"
    ),
    Signal.PREFILL_QUEUE: SignalTerms(Unit.REQUESTS, _GAUGE, "waiting for a prefill worker"),
    Signal.DECODE_QUEUE: SignalTerms(Unit.REQUESTS, _GAUGE, "waiting for a decode worker"),
    Signal.TRANSFER_QUEUE: SignalTerms(Unit.REQUESTS, _GAUGE, "whose KV is being moved"),
    Signal.TRANSFER_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of moving one request's KV"),
    Signal.TRANSFER_SIZE: SignalTerms(Unit.BYTES, _HISTOGRAM, "of one request's KV that was moved"),
    Signal.TRANSFER_FAILURES: SignalTerms(Unit.COUNT, _COUNTER, "failed moves of KV"),
    Signal.DEVICE_MEMORY_USED: SignalTerms(Unit.BYTES, _GAUGE, "of the device, by everybody"),
    Signal.DEVICE_MEMORY_FREE: SignalTerms(Unit.BYTES, _GAUGE, "of the device"),
    Signal.DEVICE_USAGE: SignalTerms(Unit.RATIO, _GAUGE, "of time that the device was busy"),
    Signal.HOST_MEMORY_USED: SignalTerms(Unit.BYTES, _GAUGE, "resident, of the engine's process"),
    Signal.PROCESS_STARTED: SignalTerms(Unit.UNIX_SECONDS, _GAUGE, "when the process started"),
    Signal.PROCESS_CPU: SignalTerms(Unit.SECONDS, _COUNTER, "of CPU, of the front process"),
    Signal.SLEEPING: SignalTerms(Unit.COUNT, _GAUGE, "1 where the engine was put to sleep"),
    Signal.ENGINE_HEALTHY: SignalTerms(
        Unit.COUNT, _GAUGE, "1 where the engine says that it is well"
    ),
    Signal.GATEWAY_IN_FLIGHT: SignalTerms(Unit.REQUESTS, _GAUGE, "arrived at us and not ended"),
    Signal.GATEWAY_ARRIVED: SignalTerms(Unit.REQUESTS, _COUNTER, "that arrived at us"),
    Signal.GATEWAY_UNDELIVERED: SignalTerms(
        Unit.REQUESTS, _GAUGE, "arrived at us and not yet read to their end by their clients"
    ),
    Signal.GATEWAY_QUEUED: SignalTerms(Unit.REQUESTS, _GAUGE, "waiting in our own queue"),
    Signal.GATEWAY_HELD_BACK_REPLICAS: SignalTerms(
        Unit.COUNT, _GAUGE, "replicas that we send less, because they do worse"
    ),
    Signal.GATEWAY_PROMPT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "of prompts, at the gateway"),
    Signal.GATEWAY_CACHED_TOKENS: SignalTerms(
        Unit.TOKENS, _COUNTER, "of prompts, reused, at the gateway"
    ),
    Signal.GATEWAY_OUTPUT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "of answers, at the gateway"),
    Signal.GATEWAY_OLDEST_QUEUED: SignalTerms(Unit.SECONDS, _GAUGE, "wait of the oldest of them"),
    Signal.GATEWAY_REJECTED: SignalTerms(
        Unit.REQUESTS, _COUNTER, "refused by our policy (labels request_class, reason)"
    ),
    Signal.GATEWAY_ENDED: SignalTerms(Unit.REQUESTS, _COUNTER, "ended (label disposition)"),
    Signal.GATEWAY_DEGRADED: SignalTerms(
        Unit.REQUESTS, _COUNTER, "admitted with less than was asked for"
    ),
    Signal.GATEWAY_SLOW_CLIENTS: SignalTerms(
        Unit.REQUESTS, _COUNTER, "whose client read too slowly (label kind)"
    ),
    Signal.ROUTED_IN_FLIGHT: SignalTerms(
        Unit.REQUESTS, _GAUGE, "sent to a replica and not ended, as its router counts"
    ),
    Signal.GATEWAY_TTFT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the first token, server"),
    Signal.GATEWAY_TPOT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of a request's tokens, server"),
    Signal.GATEWAY_ITL: SignalTerms(Unit.SECONDS, _HISTOGRAM, "between tokens, server"),
    Signal.GATEWAY_E2E: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the last fragment left"),
    Signal.GATEWAY_QUEUE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "in our own queue"),
}
