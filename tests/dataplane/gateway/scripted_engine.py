"""A small deterministic engine behind the engine contract, found through the plugin hook.

Its answer to every prompt is "w0 w1 w2 ..." up to the output limit. Tests hold it, step it,
make it fail or vanish, and look at what it still holds.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from dataplane.engine import (
    EngineCapabilities,
    EngineClient,
    EngineEvent,
    EngineRequest,
    EngineStats,
    EngineUnavailableError,
    EngineUse,
    TokenLogprob,
)
from dataplane.hooks import hookimpl
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.policy import ReplicaEndpoint
from dataplane.prefix_report import PrefixReport

ENGINE = "scripted"
REPLICAS: dict[str, "ScriptedReplica"] = {}
"""By address; what is not here is a replica that cannot be reached."""

CAPABILITIES = EngineCapabilities(
    engine=ENGINE,
    version="1",
    takes_token_ids=True,
    max_model_len=512,
    max_num_seqs=4,
    prefill=Observability.OBSERVED,
    decode=Observability.OBSERVED,
    cleanup=Observability.OBSERVED,
    token_counts=Observability.OBSERVED,
    cached_tokens=Observability.OBSERVED,
    parameters=frozenset({"ignore_eos", "logit_bias", "logprobs", "n", "top_k", "top_logprobs"}),
)
# Its prompts are estimated: what a tokenizer counts is another test's matter.
BLIND = replace(CAPABILITIES, takes_token_ids=False)
WITH_TOOLS = replace(CAPABILITIES, parameters=CAPABILITIES.parameters | {"tools", "tool_choice"})


@dataclass(eq=False)
class ScriptedReplica:
    """The engine itself; clients reach it by address."""

    capabilities: EngineCapabilities = CAPABILITIES
    step_seconds: float = 0.001
    submitted: list[EngineRequest] = field(default_factory=list)
    held: dict[str, Disposition | None] = field(default_factory=dict)
    """Requests that hold something, with the disposition they were cancelled with."""
    cancelled: list[str] = field(default_factory=list)
    is_dead: bool = False
    is_mute: bool = False
    """It is there and answers no question."""
    ignores_cancel: bool = False
    can_pause: bool = False
    """It waits with a request when it is asked to, and says so."""
    ignores_pause: bool = False
    paused: set[str] = field(default_factory=set)
    told_running: int | None = None
    """What it says it runs; None: the truth."""
    told_stats: dict[str, Any] = field(default_factory=dict)
    """What it says of itself beside that, true or not."""
    told_ahead_seconds: float = 0.0
    """By how much it tells of everything as later than it was."""
    finish_instead: EngineEvent | None = None
    """Given as the end of every request, right after it was scheduled."""
    num_cached_tokens: int = 0
    """Of every prompt."""
    stop_text: str | None = None
    """Ends the answer when it would be next, as a matched stop string does."""
    tool_deltas: tuple[dict[str, Any], ...] = ()
    """Given instead of words to a request that brings tools."""
    num_reasoning: int = 0
    """So many of its words are reasoning, which it sets apart."""
    shows_steps: bool = True
    """False: neither offsets nor cleanup, as of an attached endpoint."""
    num_blocks: int | None = None
    """Of 16 tokens, none of them in use; None: it does not show its blocks."""
    used: EngineUse | None = None
    """Told of every request with its release."""
    told_prefixes: PrefixReport | None = None
    """What it says that it can find again; None: it does not say."""
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _steps: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def __post_init__(self) -> None:
        self._open.set()

    def hold(self) -> None:
        """Run no step until `step` or `resume`."""
        self._open.clear()

    def step(self, num_steps: int = 1) -> None:
        """Let that many steps of any request run."""
        for _ in range(num_steps):
            self._steps.release()

    def resume(self) -> None:
        """Run freely again."""
        self._open.set()

    def die(self) -> None:
        """Vanish with all that runs."""
        self.is_dead = True

    async def next_step(self, request_id: str) -> None:
        """Wait for the turn of a step; a cancel or a death ends the wait."""
        if self._open.is_set():
            await asyncio.sleep(self.step_seconds)
        while not self._open.is_set() and not self.is_dead and not self.held.get(request_id):
            try:
                await asyncio.wait_for(self._steps.acquire(), 0.005)
            except TimeoutError:
                continue
            return

    async def go_on(self, request_id: str) -> None:
        """Wait while it is paused, and not ended."""
        while request_id in self.paused and not self.held.get(request_id):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@dataclass(eq=False)
class ScriptedClient:
    """EngineClient of one ScriptedReplica."""

    replica_id: str
    address: str
    told: EngineCapabilities | None = None

    @property
    def replica(self) -> ScriptedReplica:
        replica = REPLICAS.get(self.address)
        if replica is None or replica.is_dead:
            raise EngineUnavailableError(self.replica_id, "nothing listens there")
        return replica

    @property
    def capabilities(self) -> EngineCapabilities:
        assert self.told is not None, "capabilities are known only after connect"
        return self.told

    async def cached_prefixes(self, cursor: str | None) -> PrefixReport | None:
        return self.replica.told_prefixes

    async def connect(self) -> None:
        self.told = self.replica.capabilities

    async def submit(self, request: EngineRequest) -> AsyncIterator[EngineEvent]:
        replica = self.replica
        received_at = time.monotonic()
        replica.submitted.append(request)
        replica.held[request.request_id] = None
        try:
            async for event in _events(replica, request):
                if replica.is_dead:
                    raise EngineUnavailableError(self.replica_id, "it was killed")
                if event.kind is EventKind.RELEASED:
                    del replica.held[request.request_id]
                    if not replica.shows_steps:
                        return
                    event = replace(event, used=replica.used)
                now = time.monotonic() + replica.told_ahead_seconds
                offset = now - received_at if replica.shows_steps else None
                yield replace(event, offset=offset)
        finally:
            replica.held.pop(request.request_id, None)

    async def cancel(self, request_id: str, disposition: Disposition) -> None:
        replica = self.replica
        replica.cancelled.append(request_id)
        if request_id in replica.held and not replica.ignores_cancel:
            replica.held[request_id] = disposition

    async def stats(self) -> EngineStats:
        while self.replica.is_mute:  # noqa: ASYNC110 - tests say when it answers again
            await asyncio.sleep(0.005)
        replica = self.replica
        stats = EngineStats(
            age_seconds=0.0,
            num_running=len(replica.held) if replica.told_running is None else replica.told_running,
            num_blocks=replica.num_blocks,
            block_size=None if replica.num_blocks is None else 16,
            num_referenced_blocks=None if replica.num_blocks is None else 0,
        )
        return replace(stats, **replica.told_stats)

    async def close(self) -> None:
        pass


class PausingClient(ScriptedClient):
    """Of a replica whose engine can wait."""

    async def pause(self, request_id: str, is_paused: bool) -> None:
        if self.replica.ignores_pause:
            return
        (self.replica.paused.add if is_paused else self.replica.paused.discard)(request_id)


def _select(request: EngineRequest, sequence: int, number: int) -> Iterator[EngineEvent]:
    """Token `number` of one sequence. Sequence k says "<k>w0 <k>w1 ..." and ends k tokens early."""
    num_tokens = request.sampling.max_output_tokens - sequence
    if number >= num_tokens:
        return
    text = f"{sequence or ''}w{number} "
    told = TokenLogprob(token=text, logprob=-0.5, utf8=text.encode())
    other = TokenLogprob(token="no", logprob=-9.0, utf8=b"no")
    num_logprobs = request.sampling.num_logprobs
    yield EngineEvent(
        kind=EventKind.TOKENS if number else EventKind.FIRST_TOKEN,
        sequence=sequence,
        num_tokens=1,
        token_ids=(number,),
        text=text,
        logprobs=() if num_logprobs is None else (replace(told, top=(told, other)[:num_logprobs]),),
    )
    if sequence and number == num_tokens - 1:
        yield EngineEvent(kind=EventKind.FINISHED, sequence=sequence, disposition=Disposition.STOP)


def _as_reasoning(event: EngineEvent) -> EngineEvent:
    return replace(event, text=None, delta={"reasoning_content": event.text})


async def _events(replica: ScriptedReplica, request: EngineRequest) -> AsyncIterator[EngineEvent]:
    """One request's life, a step between two events."""
    await replica.next_step(request.request_id)
    disposition = replica.held.get(request.request_id)
    if disposition is None:
        yield EngineEvent(kind=EventKind.SCHEDULED)
        if replica.finish_instead is not None:
            yield replica.finish_instead
            yield EngineEvent(kind=EventKind.RELEASED)
            return
        if replica.shows_steps:
            yield EngineEvent(
                kind=EventKind.PREFILL_CHUNK,
                num_tokens=len(request.prompt_token_ids),
                num_cached_tokens=replica.num_cached_tokens,
            )
        if "tools" in request.body:
            for number, delta in enumerate(replica.tool_deltas):
                kind = EventKind.TOKENS if number else EventKind.FIRST_TOKEN
                yield EngineEvent(kind=kind, num_tokens=1, delta=delta)
            yield EngineEvent(
                kind=EventKind.FINISHED, disposition=Disposition.STOP, finish_reason="tool_calls"
            )
            yield EngineEvent(kind=EventKind.RELEASED)
            return
        for number in range(request.sampling.max_output_tokens):
            await replica.next_step(request.request_id)
            if request.request_id in replica.paused:
                yield EngineEvent(kind=EventKind.PAUSED)
                await replica.go_on(request.request_id)
                yield EngineEvent(kind=EventKind.RESUMED)
            disposition = replica.held.get(request.request_id)
            if disposition is not None:
                break
            if replica.stop_text == f"w{number}":
                disposition = Disposition.STOP
                break
            for sequence in range(request.sampling.num_sequences):
                for event in _select(request, sequence, number):
                    yield _as_reasoning(event) if number < replica.num_reasoning else event
    yield EngineEvent(
        kind=EventKind.FINISHED,
        disposition=disposition or Disposition.LENGTH,
        status_code=500 if disposition is Disposition.ERROR else None,
    )
    yield EngineEvent(kind=EventKind.RELEASED)


@hookimpl
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """The client of a scripted replica."""
    if endpoint.engine != ENGINE:
        return None
    replica = REPLICAS.get(endpoint.address)
    kind = PausingClient if replica is not None and replica.can_pause else ScriptedClient
    return kind(endpoint.replica_id, endpoint.address)
