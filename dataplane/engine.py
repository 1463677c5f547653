"""The engine contract: what Pilothouse asks of an engine, and what it may say in return.

Two halves, for two users. The gateway talks to a replica through an `EngineClient`.
Launchers and the operator learn from an `EngineProcess` how a replica is started,
proven ready and stopped; an adapter to somebody else's running endpoint has only the
first half. Neither half assumes that the engine is ours: what an engine cannot show is
declared in its `EngineCapabilities` and marked on every surface.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from dataplane.lifecycle import Disposition, EventKind, Observability


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are selected and when selection ends."""

    max_output_tokens: int
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int | None = None
    """None: no limit."""
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """A matching string ends the sequence and is not part of the output."""
    ignore_eos: bool = False
    num_sequences: int = 1
    """Answers to one prompt (`n`), each with its own random numbers under one seed."""
    min_output_tokens: int = 0
    """The model's end is not selected before so many tokens."""
    presence_penalty: float = 0.0
    """Taken from the logit of every token that the output holds already."""
    frequency_penalty: float = 0.0
    """The same, once for each time that the output holds it."""
    repetition_penalty: float = 1.0
    """Divides (multiplies, where negative) the logit of tokens in prompt or output."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, what is added to its logit)."""
    num_logprobs: int | None = None
    """How many of the likeliest tokens are told beside each selected one; None: nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One attempt of one request, as the gateway submits it.

    Engines that take token ids (`EngineCapabilities.takes_token_ids`) read
    `prompt_token_ids`; adapters forward `body`, the client's own parsed JSON, instead.
    """

    request_id: str
    attempt: int
    endpoint: str
    """/v1/chat/completions or /v1/completions."""
    sampling: SamplingParams
    prompt_token_ids: tuple[int, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    is_stream: bool = True
    isolation_key: str = ""
    """Prefix reuse only happens between requests with the same key (one key a tenant)."""
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """How likely a token was, by the model's own distribution: before temperature, penalties,
    bias and truncation."""

    token: str
    """Its text; U+FFFD where its bytes are a part of a character."""
    logprob: float
    """Natural logarithm."""
    utf8: bytes | None = None
    """Its bytes; None for a token that stands for no text."""
    top: "tuple[TokenLogprob, ...]" = ()
    """The likeliest tokens at its place, likeliest first; theirs is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUse:
    """What one attempt took of its engine, all its sequences together."""

    engine_seconds: float
    """Its part of the time of each step that it was in, by the tokens computed for it there: the
    parts of a step add up to the step."""
    kv_block_seconds: float | None = None
    """Blocks in its block tables, times how long; a block that several share counts for each of
    them. None: the engine does not show blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEvent:
    """One lifecycle event as the engine tells it.

    `offset` counts seconds on the engine's own clock since it received the submission;
    None where the engine cannot show the moment, and then the gateway stamps the event
    on receipt and marks it `inferred`. Kinds used: SCHEDULED, PREFILL_CHUNK, FIRST_TOKEN,
    TOKENS, PREEMPTED, RESUMED, PAUSED, FINISHED, RELEASED; PAUSED only where it really waits
    (see dataplane.engine_pause).
    """

    kind: EventKind
    offset: float | None = None
    sequence: int = 0
    num_tokens: int | None = None
    num_cached_tokens: int | None = None
    """PREFILL_CHUNK: prompt tokens that were reused instead of computed. FINISHED: those of the
    whole request, from an engine that tells them only then."""
    token_ids: tuple[int, ...] = ()
    """FIRST_TOKEN, TOKENS: what was selected, where the engine shows ids."""
    text: str | None = None
    """Output text that is safe to deliver now; it never holds part of a stop string.
    FINISHED may carry the last of it."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """FIRST_TOKEN, TOKENS: one for each token, where the request asked and the engine tells."""
    delta: Mapping[str, Any] | None = None
    """What else belongs to the answer, as a chat chunk's `delta` says it (tool calls)."""
    disposition: Disposition | None = None
    reason: str | None = None
    status_code: int | None = None
    """FINISHED with ERROR or INVALID: the HTTP status that the caller should see."""
    error_code: str | None = None
    """FINISHED with a status: the name that callers' programs know the error by, where it has
    one (`context_length_exceeded`)."""
    finish_reason: str | None = None
    """FINISHED: what a client is told where it is more than the disposition (`tool_calls`)."""
    num_prompt_tokens: int | None = None
    """FINISHED: usage as the engine counts it, where it does. What the request's last sequence
    says is of all its sequences."""
    num_output_tokens: int | None = None
    used: EngineUse | None = None
    """RELEASED: what the attempt took, where the engine measures it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCapabilities:
    """What an engine can do, and what of its work can be seen."""

    engine: str
    version: str
    takes_token_ids: bool
    max_model_len: int | None
    """Prompt plus output tokens of one sequence; None when the endpoint does not say."""
    max_num_seqs: int | None
    """Sequences that can be active at once; None when the endpoint does not say."""
    prefill: Observability
    """Start, chunks and end of prefill; `scheduled` follows it."""
    decode: Observability
    cleanup: Observability
    token_counts: Observability
    cached_tokens: Observability
    parameters: frozenset[str] = frozenset()
    """Request parameters beyond the ones every engine takes, by their names in the body: `n`,
    `logprobs`, `tools`. What is not here is refused before it is submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """One dated snapshot of an engine. None: this engine does not say; never zero."""

    age_seconds: float
    max_num_seqs: int | None = None
    """The configured limit of active sequences; a bound, not a supply."""
    num_running: int | None = None
    num_waiting: int | None = None
    num_blocks: int | None = None
    block_size: int | None = None
    """Tokens of a block."""
    num_free_blocks: int | None = None
    """Blocks that could be handed out now, cached ones that nobody references included."""
    num_referenced_blocks: int | None = None
    num_cached_blocks: int | None = None
    """Kept for prefix reuse, referenced or not."""
    num_evictable_blocks: int | None = None
    """Of the cached ones, those that nobody references: reusable, and free to be handed out."""
    num_unreleased: int | None = None
    """Requests that finished and still hold something."""
    num_steps: int | None = None
    prompt_tokens_scheduled: int | None = None
    """Of the last step."""
    decode_steps_scheduled: int | None = None
    """Of the last step."""
    num_preemptions: int | None = None
    blocked_on: str | None = None
    """What the scheduler waits for when nothing can run."""
    ledger: Mapping[str, int] | None = None
    """Bytes by line of the memory ledger."""


class EngineUnavailableError(Exception):
    """The replica cannot be reached, or vanished. Before the first byte another may be tried."""

    def __init__(self, replica_id: str, why: str) -> None:
        super().__init__(f"replica {replica_id} is unavailable: {why}")
        self.replica_id = replica_id
        self.why = why


class EngineClient(Protocol):
    """The gateway's connection to one replica. One event loop owns it; nothing here blocks."""

    @property
    def capabilities(self) -> EngineCapabilities:
        """Valid after `connect`."""
        ...

    async def connect(self) -> None:
        """Reach the replica and learn its capabilities.

        Raises EngineUnavailableError when it does not answer, or answers as another replica.
        """
        ...

    def submit(self, request: EngineRequest) -> AsyncIterator[EngineEvent]:
        """Start one attempt and yield its events, in order.

        Where cleanup is observable the last event is RELEASED, otherwise FINISHED. The
        gateway drains the iterator to its end even when the client has left. Raises
        EngineUnavailableError when the replica is lost, at any point.
        """
        ...

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        """End a request early. Unknown and finished ids are no error: cancels cross finishes."""
        ...

    async def stats(self) -> EngineStats:
        """Raises EngineUnavailableError."""
        ...

    async def close(self) -> None:
        """Give the connection up. Requests still running on it are cancelled by the engine."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """All that decides what a replica is. Specs that differ only in id and fencing token are
    interchangeable."""

    replica_id: str
    """Never reused."""
    deployment: str
    engine: str
    """The engine plugin's name."""
    model_name: str
    """What clients ask for."""
    model_revision: str
    """`name@number`."""
    engine_config_revision: str
    artifact: str
    """Path of the model's weights, or the base URL of an attached endpoint."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The `EngineConfig` document's settings; the engine plugin validates them."""
    protocol_version: int = 1
    """What gateways speak with it. One that was started before an upgrade may speak another, and is
    replaced like one of another revision. Specs from before this was said are of version 1."""
    fencing_token: int = 0
    """Grows with every replica that is ever started: whoever shows an older one than is on record
    is not the one that is meant. Tells no specs apart; 0: started before there were tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """What a start cost, in seconds by stage. A stage that did not occur is absent."""

    stages: Mapping[str, float]
    """Keys: acquire, load, compile, warm_up."""

    @property
    def total_seconds(self) -> float:
        """The stages' sum; stages do not overlap."""
        return sum(self.stages.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """What a starting or running replica process says of itself, in its status file."""

    replica_id: str
    pid: int
    stage: str
    """acquire, load, compile, warm_up, serving, draining or failed."""
    address: str | None
    """host:port of the engine door; None before `serving`."""
    metrics_address: str | None
    stages: Mapping[str, float]
    """Seconds of the stages completed so far."""
    error: str | None = None
    """With `failed`: what went wrong and the remedy."""
    fencing_token: int | None = None
    """As its spec says it; None: its program does not tell."""
    unobservable_stages: tuple[str, ...] = ()
    """Those that the engine does not show: they are inside another one, if they were."""


class EngineProcess(Protocol):
    """How a replica of one engine is started and proven. Used by launchers and the operator."""

    @property
    def attaches(self) -> bool:
        """A Model with a url is attached to: an endpoint that runs already, and is not started."""
        ...

    def command(self, spec_path: str, status_path: str) -> tuple[str, ...]:
        """The argv that runs one replica.

        The process reads the ReplicaSpec (JSON) at `spec_path`, keeps its ReplicaStatus
        (JSON) current at `status_path`, drains and exits 0 on SIGTERM.
        """
        ...

    async def probe(self, spec: ReplicaSpec, address: str, timeout_seconds: float) -> float:
        """Generate one token, and return the seconds it took: the only proof of readiness.

        Raises EngineUnavailableError.
        """
        ...
