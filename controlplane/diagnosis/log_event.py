"""What engines and kernels write to logs, apart from statistics, in one normal form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class LogKind(StrEnum):
    """What a line says. Fields that a line may carry stand behind it; bytes and seconds always."""

    STARTING = "starting"
    """An engine begins to start (version, max_model_len, max_num_seqs, ...)."""
    WEIGHTS_LOADING = "weights_loading"
    WEIGHTS_LOADED = "weights_loaded"
    """bytes, seconds."""
    COMPILED = "compiled"
    """seconds."""
    PROFILING = "profiling"
    """A profiling run, or a memory measurement, begins."""
    MEMORY_SPLIT = "memory_split"
    """What of the device goes to what: total_bytes, weights_bytes, activation_bytes, kv_bytes."""
    KV_CACHE_SIZED = "kv_cache_sized"
    """bytes, tokens, blocks, concurrency, max_model_len."""
    KV_CACHE_TOO_SMALL = "kv_cache_too_small"
    """It refuses to start: a longest request does not fit (needed_bytes, available_bytes, tokens,
    max_model_len)."""
    FREE_MEMORY_TOO_LITTLE = "free_memory_too_little"
    """It refuses to start: free_bytes, total_bytes, wanted_bytes, share."""
    GRAPH_CAPTURE_STARTED = "graph_capture_started"
    """Also each step of its progress (done, total)."""
    GRAPH_CAPTURE_FINISHED = "graph_capture_finished"
    """seconds, bytes."""
    WARMUP_STARTED = "warmup_started"
    INITIALIZED = "initialized"
    """Profile, KV cache and warm-up in all: seconds, compile_seconds."""
    READY = "ready"
    """It takes requests."""
    OUT_OF_MEMORY = "out_of_memory"
    """Of the device: wanted_bytes, total_bytes, free_bytes, allocated_bytes, reserved_bytes (held
    by the allocator and unallocated), process_bytes; what it was doing, where the line says so."""
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    """A kernel or a container runtime killed it, or the host could give no more: bytes."""
    HOST_MEMORY_PEAK = "host_memory_peak"
    """What a process took of the host's memory at most: bytes."""
    HOST_STATE_SAVED = "host_state_saved"
    """A prompt's state or KV was moved to host memory: bytes, tokens."""
    FAILED_TO_START = "failed_to_start"
    DIED = "died"
    """A worker, an engine or a scheduler ended or met an exception (rank)."""
    PREEMPTED = "preempted"
    """num, tokens, cumulative."""
    RETRACTED = "retracted"
    """num, tokens."""
    NO_PROGRESS = "no_progress"
    """A watchdog or a waiting process says that nothing moves: seconds."""
    OUTPUT_WITHOUT_OWNER = "output_without_owner"
    """The engine works at a request that nobody has any more (request_id)."""
    MEMORY_LEAK = "memory_leak"
    """The engine's own check of its pool fails."""
    REJECTED = "rejected"
    """A limit refused a request (status, limit)."""
    PROMPT_TOO_LONG = "prompt_too_long"
    """tokens, limit."""
    CLIENT_GONE = "client_gone"
    """A request was aborted because its caller left (request_id)."""
    SLOT_CHOSEN = "slot_chosen"
    """similarity: the share of the prompt that the slot holds already."""
    PROMPT_STARTED = "prompt_started"
    """tokens, n_past, context."""
    FULL_REPROCESS = "full_reprocess"
    """Nothing of a prompt that was cached can be used (why)."""
    CACHE_RESET = "cache_reset"
    """Nothing is kept of what a slot or a cache held."""
    CACHE_CUT = "cache_cut"
    """A slot keeps its first tokens (from) and drops the rest."""
    PROMPT_EVALUATED = "prompt_evaluated"
    """tokens, seconds, of one request."""
    GENERATED = "generated"
    """tokens, seconds, of one request."""
    TRANSFER = "transfer"
    """KV was moved: bytes, seconds."""
    TRANSFER_FAILED = "transfer_failed"
    COLLECTIVE_SLOW = "collective_slow"
    """A collective timed out or was slow: seconds."""
    HTTP_ANSWERED = "http_answered"
    """An access line: status, path."""
    ERROR = "error"
    """Any other line of level error, or an exception's last line."""
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One line that says something, in the order of the log."""

    kind: LogKind
    index: int
    """Its place among all lines of the window."""
    line: str
    """As it was written; findings cite it."""
    at: float | None = None
    """Seconds on the window's clock; None where the line has no time."""
    fields: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    """What it says that is no number: rank, request_id, stage, why."""
