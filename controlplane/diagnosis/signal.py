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
    KV_USAGE = "kv_usage"
    KV_CAPACITY = "kv_capacity"
    KV_EVICTABLE = "kv_evictable"
    KV_BLOCK_SIZE = "kv_block_size"
    KV_BLOCKS = "kv_blocks"
    KV_BLOCKS_FREE = "kv_blocks_free"
    KV_BLOCKS_CACHED = "kv_blocks_cached"
    CONTEXT_TOKENS = "context_tokens"
    SEATS = "seats"
    PREEMPTIONS = "preemptions"
    RETRACTED_TOKENS = "retracted_tokens"
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
    HIT_RATE = "hit_rate"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"
    ABORTED = "aborted"
    RECEIVED = "received"
    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    QUEUE_TIME = "queue_time"
    PREFILL_TIME = "prefill_time"
    DECODE_TIME = "decode_time"
    PROMPT_LENGTH = "prompt_length"
    OUTPUT_LENGTH = "output_length"
    STEP_TIME = "step_time"
    STEP_TOKENS = "step_tokens"
    STEPS = "steps"
    DRAFTS = "drafts"
    DRAFT_TOKENS = "draft_tokens"
    ACCEPTED_TOKENS = "accepted_tokens"
    ACCEPTANCE_RATE = "acceptance_rate"
    ACCEPTANCE_LENGTH = "acceptance_length"
    CUDA_GRAPH = "cuda_graph"
    UNRELEASED = "unreleased"
    LEAKED = "leaked"
    PREFILL_QUEUE = "prefill_queue"
    DECODE_QUEUE = "decode_queue"
    TRANSFER_QUEUE = "transfer_queue"
    TRANSFER_TIME = "transfer_time"
    TRANSFER_FAILURES = "transfer_failures"
    DEVICE_MEMORY_USED = "device_memory_used"
    DEVICE_USAGE = "device_usage"
    HOST_MEMORY_USED = "host_memory_used"
    PROCESS_STARTED = "process_started"
    PROCESS_CPU = "process_cpu"
    SLEEPING = "sleeping"
    GATEWAY_IN_FLIGHT = "gateway_in_flight"
    GATEWAY_QUEUED = "gateway_queued"
    GATEWAY_OLDEST_QUEUED = "gateway_oldest_queued"
    GATEWAY_REJECTED = "gateway_rejected"
    GATEWAY_ENDED = "gateway_ended"
    GATEWAY_SLOW_CLIENTS = "gateway_slow_clients"
    GATEWAY_TTFT = "gateway_ttft"
    GATEWAY_TPOT = "gateway_tpot"
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
    Signal.KV_USAGE: SignalTerms(Unit.RATIO, _GAUGE, "of the KV cache held by active requests"),
    Signal.KV_CAPACITY: SignalTerms(Unit.TOKENS, _GAUGE, "size of the KV cache"),
    Signal.KV_EVICTABLE: SignalTerms(Unit.TOKENS, _GAUGE, "cached and held by nobody"),
    Signal.KV_BLOCK_SIZE: SignalTerms(Unit.TOKENS, _GAUGE, "of one block"),
    Signal.KV_BLOCKS: SignalTerms(Unit.BLOCKS, _GAUGE, "of the KV cache in all"),
    Signal.KV_BLOCKS_FREE: SignalTerms(Unit.BLOCKS, _GAUGE, "that could be handed out"),
    Signal.KV_BLOCKS_CACHED: SignalTerms(Unit.BLOCKS, _GAUGE, "kept for reuse"),
    Signal.CONTEXT_TOKENS: SignalTerms(Unit.TOKENS, _GAUGE, "in the contexts of the batch"),
    Signal.SEATS: SignalTerms(Unit.REQUESTS, _GAUGE, "that can run at once by configuration"),
    Signal.PREEMPTIONS: SignalTerms(Unit.COUNT, _COUNTER, "preemptions and retractions"),
    Signal.RETRACTED_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "given up by retractions"),
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
    Signal.HIT_RATE: SignalTerms(Unit.RATIO, _GAUGE, "of prefix lookups, of late"),
    Signal.FINISHED: SignalTerms(Unit.REQUESTS, _COUNTER, "answered to their end (label reason)"),
    Signal.FAILED: SignalTerms(Unit.REQUESTS, _COUNTER, "ended by an error (label reason)"),
    Signal.REJECTED: SignalTerms(Unit.REQUESTS, _COUNTER, "refused by a limit (label reason)"),
    Signal.ABORTED: SignalTerms(Unit.REQUESTS, _COUNTER, "given up"),
    Signal.RECEIVED: SignalTerms(Unit.REQUESTS, _COUNTER, "that arrived at the engine"),
    Signal.TTFT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the first token, at the engine"),
    Signal.ITL: SignalTerms(Unit.SECONDS, _HISTOGRAM, "between tokens, at the engine"),
    Signal.TPOT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "mean of a request's ITL"),
    Signal.E2E: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the last token, at the engine"),
    Signal.QUEUE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "in the engine's queue"),
    Signal.PREFILL_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "from scheduled to first token"),
    Signal.DECODE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "from first to last token"),
    Signal.PROMPT_LENGTH: SignalTerms(Unit.TOKENS, _HISTOGRAM, "of one request's prompt"),
    Signal.OUTPUT_LENGTH: SignalTerms(Unit.TOKENS, _HISTOGRAM, "of one request's output"),
    Signal.STEP_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of a step"),
    Signal.STEP_TOKENS: SignalTerms(Unit.TOKENS, _HISTOGRAM, "of a step"),
    Signal.STEPS: SignalTerms(Unit.COUNT, _COUNTER, "steps"),
    Signal.DRAFTS: SignalTerms(Unit.COUNT, _COUNTER, "speculations"),
    Signal.DRAFT_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "drafted"),
    Signal.ACCEPTED_TOKENS: SignalTerms(Unit.TOKENS, _COUNTER, "drafted and accepted"),
    Signal.ACCEPTANCE_RATE: SignalTerms(Unit.RATIO, _GAUGE, "of drafted tokens, of late"),
    Signal.ACCEPTANCE_LENGTH: SignalTerms(Unit.TOKENS, _GAUGE, "selected per verification"),
    Signal.CUDA_GRAPH: SignalTerms(Unit.COUNT, _GAUGE, "1 where the last step replayed a graph"),
    Signal.UNRELEASED: SignalTerms(Unit.REQUESTS, _GAUGE, "finished and not released"),
    Signal.LEAKED: SignalTerms(Unit.REQUESTS, _COUNTER, "not released within the bound"),
    Signal.PREFILL_QUEUE: SignalTerms(Unit.REQUESTS, _GAUGE, "waiting for a prefill worker"),
    Signal.DECODE_QUEUE: SignalTerms(Unit.REQUESTS, _GAUGE, "waiting for a decode worker"),
    Signal.TRANSFER_QUEUE: SignalTerms(Unit.REQUESTS, _GAUGE, "whose KV is being moved"),
    Signal.TRANSFER_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of moving one request's KV"),
    Signal.TRANSFER_FAILURES: SignalTerms(Unit.COUNT, _COUNTER, "failed moves of KV"),
    Signal.DEVICE_MEMORY_USED: SignalTerms(Unit.BYTES, _GAUGE, "of the device, by everybody"),
    Signal.DEVICE_USAGE: SignalTerms(Unit.RATIO, _GAUGE, "of time that the device was busy"),
    Signal.HOST_MEMORY_USED: SignalTerms(Unit.BYTES, _GAUGE, "resident, of the engine's process"),
    Signal.PROCESS_STARTED: SignalTerms(Unit.UNIX_SECONDS, _GAUGE, "when the process started"),
    Signal.PROCESS_CPU: SignalTerms(Unit.SECONDS, _COUNTER, "of CPU, of the front process"),
    Signal.SLEEPING: SignalTerms(Unit.COUNT, _GAUGE, "1 where the engine was put to sleep"),
    Signal.GATEWAY_IN_FLIGHT: SignalTerms(Unit.REQUESTS, _GAUGE, "arrived at us and not ended"),
    Signal.GATEWAY_QUEUED: SignalTerms(Unit.REQUESTS, _GAUGE, "waiting in our own queue"),
    Signal.GATEWAY_OLDEST_QUEUED: SignalTerms(Unit.SECONDS, _GAUGE, "wait of the oldest of them"),
    Signal.GATEWAY_REJECTED: SignalTerms(
        Unit.REQUESTS, _COUNTER, "refused by our policy (labels request_class, reason)"
    ),
    Signal.GATEWAY_ENDED: SignalTerms(Unit.REQUESTS, _COUNTER, "ended (label disposition)"),
    Signal.GATEWAY_SLOW_CLIENTS: SignalTerms(
        Unit.REQUESTS, _COUNTER, "whose client read too slowly (label kind)"
    ),
    Signal.GATEWAY_TTFT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "until the first token, server"),
    Signal.GATEWAY_TPOT: SignalTerms(Unit.SECONDS, _HISTOGRAM, "of a request's tokens, server"),
    Signal.GATEWAY_QUEUE_TIME: SignalTerms(Unit.SECONDS, _HISTOGRAM, "in our own queue"),
}
