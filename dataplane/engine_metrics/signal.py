"""The signals: what can be known of an engine over time, whatever engine and source it is from.

Each has one name, one unit, one kind and one meaning, and they stand here alone: adapters and the
diagnosis read by them. `tables` say under which names an exporter tells them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


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


_NOT_ADDED = frozenset({Unit.RATIO, Unit.SECONDS, Unit.UNIX_SECONDS})


@dataclass(frozen=True, slots=True)
class SignalTerms:
    """What a signal is measured in."""

    unit: Unit
    kind: SignalKind
    meaning: str
    is_level: bool = False
    """How each engine is set, or what one request of each met: two have no more of it than one."""

    @property
    def is_whole_greatest(self) -> bool:
        """Of several engines the whole is the greatest and no sum, as of a ratio or a moment."""
        return self.is_level or (self.kind is SignalKind.GAUGE and self.unit in _NOT_ADDED)


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    terms: SignalTerms


def _gauge(name: str, unit: Unit, meaning: str) -> _Named:
    return _Named(name, SignalTerms(unit, SignalKind.GAUGE, meaning))


def _level(name: str, unit: Unit, meaning: str) -> _Named:
    return _Named(name, SignalTerms(unit, SignalKind.GAUGE, meaning, is_level=True))


def _counter(name: str, unit: Unit, meaning: str) -> _Named:
    return _Named(name, SignalTerms(unit, SignalKind.COUNTER, meaning))


def _histogram(name: str, unit: Unit, meaning: str) -> _Named:
    return _Named(name, SignalTerms(unit, SignalKind.HISTOGRAM, meaning))


class Signal(StrEnum):
    """One name for one thing."""

    _value_: str
    terms: SignalTerms
    """Its unit, kind and meaning."""

    def __new__(cls, named: _Named) -> Self:
        """A string, with its terms beside it."""
        member = str.__new__(cls, named.name)
        member._value_ = named.name
        member.terms = named.terms
        return member

    RUNNING = _gauge("running", Unit.REQUESTS, "in the batch")
    WAITING = _gauge("waiting", Unit.REQUESTS, "in the engine's own queue")
    WAITING_BY_REASON = _gauge(
        "waiting_by_reason", Unit.REQUESTS, "the same, apart by what they wait for (label reason)"
    )
    SWAPPED = _gauge("swapped", Unit.REQUESTS, "moved out to host memory")
    DEFERRED = _gauge("deferred", Unit.REQUESTS, "not considered by the scheduler for now")
    RETRACTED = _gauge("retracted", Unit.REQUESTS, "retracted, and not back in a batch")
    PENDING_PROMPT_TOKENS = _gauge("pending_prompt_tokens", Unit.TOKENS, "of prompts that wait")
    BATCH_NEW_REQUESTS = _gauge("batch_new_requests", Unit.REQUESTS, "in one prefill batch")
    BATCH_COMPUTED_TOKENS = _gauge(
        "batch_computed_tokens", Unit.TOKENS, "computed in a prefill batch"
    )
    BATCH_CACHED_TOKENS = _gauge("batch_cached_tokens", Unit.TOKENS, "reused in a prefill batch")
    PAUSED = _gauge("paused", Unit.REQUESTS, "put aside by the engine")
    KV_USAGE = _gauge("kv_usage", Unit.RATIO, "of the KV cache held by active requests")
    POOL_USAGE = _gauge(
        "pool_usage", Unit.RATIO, "of one of several pools that requests need (label pool)"
    )
    HOST_KV_USAGE = _gauge("host_kv_usage", Unit.RATIO, "of the KV cache in host memory")
    KV_CAPACITY = _gauge("kv_capacity", Unit.TOKENS, "size of the KV cache")
    KV_EVICTABLE = _gauge("kv_evictable", Unit.TOKENS, "cached and held by nobody")
    KV_AVAILABLE = _gauge("kv_available", Unit.TOKENS, "of the KV cache, free")
    KV_BLOCK_SIZE = _level("kv_block_size", Unit.TOKENS, "of one block")
    KV_BLOCKS = _gauge("kv_blocks", Unit.BLOCKS, "of the KV cache in all")
    KV_BLOCKS_FREE = _gauge("kv_blocks_free", Unit.BLOCKS, "that could be handed out")
    KV_BLOCKS_HELD = _gauge("kv_blocks_held", Unit.BLOCKS, "that requests reference")
    KV_BLOCKS_CACHED = _gauge("kv_blocks_cached", Unit.BLOCKS, "kept for reuse")
    CONTEXT_TOKENS = _gauge("context_tokens", Unit.TOKENS, "in the contexts of the batch")
    CONTEXT_HIGH_WATER = _level(
        "context_high_water", Unit.TOKENS, "the longest context that there ever was"
    )
    SEATS = _gauge("seats", Unit.REQUESTS, "that can run at once by configuration")
    BUSY_SLOTS = _gauge("busy_slots", Unit.REQUESTS, "of a step, mean since the start")
    PREEMPTIONS = _counter("preemptions", Unit.COUNT, "preemptions and retractions")
    LAST_RETRACTED = _gauge("last_retracted", Unit.REQUESTS, "by the last retraction")
    REQUEST_PREEMPTIONS = _histogram("request_preemptions", Unit.COUNT, "of one request")
    RETRACTED_TOKENS = _counter("retracted_tokens", Unit.TOKENS, "given up by retractions")
    NEW_TOKEN_RATIO = _gauge(
        "new_token_ratio", Unit.RATIO, "how cautiously it admits; rises after a retraction"
    )
    PROMPT_TOKENS = _counter("prompt_tokens", Unit.TOKENS, "of prompts, cached ones included")
    COMPUTED_PROMPT_TOKENS = _counter("computed_prompt_tokens", Unit.TOKENS, "of prompts, computed")
    CACHED_PROMPT_TOKENS = _counter("cached_prompt_tokens", Unit.TOKENS, "of prompts, reused")
    GENERATION_TOKENS = _counter("generation_tokens", Unit.TOKENS, "of outputs")
    PROMPT_RATE = _gauge("prompt_rate", Unit.TOKENS_PER_SECOND, "prefill, as the engine says")
    GENERATION_RATE = _gauge(
        "generation_rate", Unit.TOKENS_PER_SECOND, "decode, as the engine says"
    )
    PROMPT_SECONDS = _counter("prompt_seconds", Unit.SECONDS, "spent on prefill")
    GENERATION_SECONDS = _counter("generation_seconds", Unit.SECONDS, "spent on decode")
    PREFIX_QUERIES = _counter("prefix_queries", Unit.TOKENS, "looked up in the prefix cache")
    PREFIX_HITS = _counter("prefix_hits", Unit.TOKENS, "found there")
    EXTERNAL_PREFIX_QUERIES = _counter(
        "external_prefix_queries", Unit.TOKENS, "looked up in a cache outside the engine"
    )
    EXTERNAL_PREFIX_HITS = _counter("external_prefix_hits", Unit.TOKENS, "found there")
    HIT_RATE = _gauge("hit_rate", Unit.RATIO, "of prefix lookups, of late")
    EXTERNAL_HIT_RATE = _gauge("external_hit_rate", Unit.RATIO, "the same, of a cache elsewhere")
    MEDIA_HIT_RATE = _gauge("media_hit_rate", Unit.RATIO, "of lookups of images and the like")
    KV_BLOCK_LIFETIME = _histogram(
        "kv_block_lifetime", Unit.SECONDS, "of a cached block, until it is evicted"
    )
    KV_BLOCK_IDLE = _histogram("kv_block_idle", Unit.SECONDS, "that an evicted block was not used")
    KV_BLOCK_REUSE_GAP = _histogram(
        "kv_block_reuse_gap", Unit.SECONDS, "between two uses of a block"
    )
    FINISHED = _counter("finished", Unit.REQUESTS, "answered to their end (label reason)")
    FAILED = _counter("failed", Unit.REQUESTS, "ended by an error (label reason)")
    REJECTED = _counter("rejected", Unit.REQUESTS, "refused by a limit (label reason)")
    ABORTED = _counter("aborted", Unit.REQUESTS, "given up")
    RECEIVED = _counter("received", Unit.REQUESTS, "that arrived at the engine")
    ARRIVAL_RATE = _gauge("arrival_rate", Unit.PER_SECOND, "requests that arrive")
    REPLICAS = _gauge("replicas", Unit.COUNT, "replicas that take requests, or shall")
    HTTP_ANSWERED = _counter("http_answered", Unit.REQUESTS, "answered over HTTP (label code)")
    CORRUPTED = _counter("corrupted", Unit.REQUESTS, "whose logits were no numbers")
    TTFT = _histogram("ttft", Unit.SECONDS, "until the first token, at the engine")
    ITL = _histogram("itl", Unit.SECONDS, "between tokens, at the engine")
    TPOT = _histogram("tpot", Unit.SECONDS, "mean of a request's ITL")
    E2E = _histogram("e2e", Unit.SECONDS, "until the last token, at the engine")
    QUEUE_TIME = _histogram("queue_time", Unit.SECONDS, "in the engine's queue")
    PREFILL_TIME = _histogram("prefill_time", Unit.SECONDS, "from scheduled to first token")
    DECODE_TIME = _histogram("decode_time", Unit.SECONDS, "from first to last token")
    STAGE_TIME = _histogram("stage_time", Unit.SECONDS, "of a request's stage (label stage)")
    PROMPT_LENGTH = _histogram("prompt_length", Unit.TOKENS, "of one request's prompt")
    COMPUTED_LENGTH = _histogram(
        "computed_length", Unit.TOKENS, "of one request's prompt, what was computed"
    )
    OUTPUT_LENGTH = _histogram("output_length", Unit.TOKENS, "of one request's output")
    STEP_TIME = _histogram("step_time", Unit.SECONDS, "of a step")
    STEP_TOKENS = _histogram("step_tokens", Unit.TOKENS, "of a step")
    STEPS = _counter("steps", Unit.COUNT, "steps")
    STEP_PROMPT_TOKENS = _gauge("step_prompt_tokens", Unit.TOKENS, "of prompts in the last step")
    STEP_DECODES = _gauge("step_decodes", Unit.COUNT, "decode steps in the last step")
    DRAFTS = _counter("drafts", Unit.COUNT, "speculations")
    DRAFT_TOKENS = _counter("draft_tokens", Unit.TOKENS, "drafted")
    ACCEPTED_TOKENS = _counter("accepted_tokens", Unit.TOKENS, "drafted and accepted")
    ACCEPTED_BY_POSITION = _counter(
        "accepted_by_position", Unit.TOKENS, "the same by place in the draft (label position)"
    )
    ACCEPTANCE_RATE = _gauge("acceptance_rate", Unit.RATIO, "of drafted tokens, of late")
    ACCEPTANCE_LENGTH = _level("acceptance_length", Unit.TOKENS, "selected per verification")
    LATE_DRAFT_TOKENS = _gauge("late_draft_tokens", Unit.TOKENS, "drafted since the last reading")
    LATE_ACCEPTED_TOKENS = _gauge("late_accepted_tokens", Unit.TOKENS, "of them accepted")
    SPECULATED_TOKENS = _level("speculated_tokens", Unit.TOKENS, "drafted at a time, as configured")
    SPECULATION_EFFICIENCY = _gauge(
        "speculation_efficiency",
        Unit.RATIO,
        "emitted of as many as would be, were every draft accepted",
    )
    CUDA_GRAPH = _level("cuda_graph", Unit.COUNT, "1 where the last step replayed a graph")
    GRAPH_PASSES = _counter("graph_passes", Unit.COUNT, "forward passes (label mode)")
    UNRELEASED = _gauge("unreleased", Unit.REQUESTS, "finished and not released")
    LEAKED = _counter("leaked", Unit.REQUESTS, "not released within the bound")
    CANCEL_TO_RELEASE = _histogram(
        "cancel_to_release", Unit.SECONDS, "from a cancel until all is reusable"
    )
    PROMPT_BACKLOG = _gauge(
        "prompt_backlog", Unit.TOKENS, "of prompts that are still to be computed"
    )
    PREFILL_QUEUE = _gauge("prefill_queue", Unit.REQUESTS, "waiting for a prefill worker")
    DECODE_QUEUE = _gauge("decode_queue", Unit.REQUESTS, "waiting for a decode worker")
    TRANSFER_QUEUE = _gauge("transfer_queue", Unit.REQUESTS, "whose KV is being moved")
    TRANSFER_TIME = _histogram("transfer_time", Unit.SECONDS, "of moving one request's KV")
    TRANSFER_SIZE = _histogram("transfer_size", Unit.BYTES, "of one request's KV that was moved")
    TRANSFER_FAILURES = _counter("transfer_failures", Unit.COUNT, "failed moves of KV")
    DEVICE_MEMORY_USED = _gauge("device_memory_used", Unit.BYTES, "of the device, by everybody")
    DEVICE_MEMORY_FREE = _gauge("device_memory_free", Unit.BYTES, "of the device")
    DEVICE_USAGE = _gauge("device_usage", Unit.RATIO, "of time that the device was busy")
    HOST_MEMORY_USED = _gauge("host_memory_used", Unit.BYTES, "resident, of the engine's process")
    PROCESS_STARTED = _gauge("process_started", Unit.UNIX_SECONDS, "when the process started")
    PROCESS_CPU = _counter("process_cpu", Unit.SECONDS, "of CPU, of the front process")
    SLEEPING = _level("sleeping", Unit.COUNT, "1 where the engine was put to sleep")
    ENGINE_HEALTHY = _gauge("engine_healthy", Unit.COUNT, "1 where the engine says that it is well")
    GATEWAY_IN_FLIGHT = _gauge("gateway_in_flight", Unit.REQUESTS, "arrived at us and not ended")
    GATEWAY_ARRIVED = _counter("gateway_arrived", Unit.REQUESTS, "that arrived at us")
    GATEWAY_UNDELIVERED = _gauge(
        "gateway_undelivered",
        Unit.REQUESTS,
        "arrived at us and not yet read to their end by their clients",
    )
    GATEWAY_QUEUED = _gauge("gateway_queued", Unit.REQUESTS, "waiting in our own queue")
    GATEWAY_HELD_BACK_REPLICAS = _gauge(
        "gateway_held_back_replicas",
        Unit.COUNT,
        "replicas that we send less, because they do worse",
    )
    GATEWAY_PROMPT_TOKENS = _counter(
        "gateway_prompt_tokens", Unit.TOKENS, "of prompts, at the gateway"
    )
    GATEWAY_CACHED_TOKENS = _counter(
        "gateway_cached_tokens", Unit.TOKENS, "of prompts, reused, at the gateway"
    )
    GATEWAY_OUTPUT_TOKENS = _counter(
        "gateway_output_tokens", Unit.TOKENS, "of answers, at the gateway"
    )
    GATEWAY_OLDEST_QUEUED = _gauge(
        "gateway_oldest_queued", Unit.SECONDS, "wait of the oldest of them"
    )
    GATEWAY_REJECTED = _counter(
        "gateway_rejected", Unit.REQUESTS, "refused by our policy (labels request_class, reason)"
    )
    GATEWAY_ENDED = _counter("gateway_ended", Unit.REQUESTS, "ended (label disposition)")
    GATEWAY_DEGRADED = _counter(
        "gateway_degraded", Unit.REQUESTS, "admitted with less than was asked for"
    )
    GATEWAY_SLOW_CLIENTS = _counter(
        "gateway_slow_clients", Unit.REQUESTS, "whose client read too slowly (label kind)"
    )
    ROUTED_IN_FLIGHT = _gauge(
        "routed_in_flight", Unit.REQUESTS, "sent to a replica and not ended, as its router counts"
    )
    ROUTED_FULL = _gauge(
        "routed_full", Unit.RATIO, "how full a router takes its replicas to be; 1: it sends none"
    )
    GATEWAY_TTFT = _histogram("gateway_ttft", Unit.SECONDS, "until the first token, server")
    GATEWAY_TPOT = _histogram("gateway_tpot", Unit.SECONDS, "of a request's tokens, server")
    GATEWAY_ITL = _histogram("gateway_itl", Unit.SECONDS, "between tokens, server")
    GATEWAY_E2E = _histogram("gateway_e2e", Unit.SECONDS, "until the last fragment left")
    GATEWAY_LONGEST_GAP = _histogram(
        "gateway_longest_gap", Unit.SECONDS, "of an answer, while its engine sent nothing of it"
    )
    GATEWAY_QUEUE_TIME = _histogram("gateway_queue_time", Unit.SECONDS, "in our own queue")
