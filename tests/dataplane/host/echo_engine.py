"""A small engine that says its prompt over and over: real scheduling, predictable words.

Output token j is prompt token j modulo the prompt's length. Slots bound how many requests
are active; a prompt takes one step; the j-th step selects one token for each active
request. Settings (all optional): `max_num_seqs`; `step_seconds`, how long a step computes;
`holds_gil`, whether it lets other threads run meanwhile; `fails_at_step`; `load_seconds`;
`never_releases`.
"""

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from dataplane.engine import EngineCapabilities, EngineRequest, EngineStats, ReplicaSpec
from dataplane.hooks import hookimpl
from dataplane.host.cached_prefixes import CachedPrefixes
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind, Observability

ENGINE = "echo"
MAX_MODEL_LEN = 1_000_000


@hookimpl
def pilothouse_create_engine_core(spec: ReplicaSpec) -> "EchoCore | None":
    """The core for a spec of this engine."""
    return EchoCore(**spec.settings) if spec.engine == ENGINE else None


@dataclass(slots=True, eq=False)
class _Active:
    request: EngineRequest
    num_output_tokens: int = 0
    is_finished: bool = False
    is_paused: bool = False


class EchoCore:
    """An EngineCore without a model, and without a cache."""

    cached_prefixes: CachedPrefixes | None = None

    def __init__(
        self,
        *,
        max_num_seqs: int = 8,
        step_seconds: float = 0.0,
        holds_gil: bool = False,
        fails_at_step: int | None = None,
        load_seconds: float = 0.0,
        never_releases: bool = False,
    ) -> None:
        self._max_num_seqs = max_num_seqs
        self._step_seconds = step_seconds
        self._holds_gil = holds_gil
        self._fails_at_step = fails_at_step
        self._load_seconds = load_seconds
        self._never_releases = never_releases
        self._waiting: deque[_Active] = deque()
        self._active: list[_Active] = []
        self._retired: list[_Active] = []
        self._num_steps = 0
        self._scheduled = (0, 0)

    @property
    def capabilities(self) -> EngineCapabilities:
        return EngineCapabilities(
            engine=ENGINE,
            version="1",
            takes_token_ids=True,
            max_model_len=MAX_MODEL_LEN,
            max_num_seqs=self._max_num_seqs,
            prefill=Observability.OBSERVED,
            decode=Observability.OBSERVED,
            cleanup=Observability.OBSERVED,
            token_counts=Observability.OBSERVED,
            cached_tokens=Observability.UNOBSERVABLE,
            parameters=frozenset({"ignore_eos"}),
        )

    @property
    def has_work(self) -> bool:
        return bool(self._active or self._waiting or (self._retired and not self._never_releases))

    @property
    def compile_seconds(self) -> float:
        return self._load_seconds / 2

    def load(self) -> None:
        time.sleep(self._load_seconds)

    def warm_up(self) -> None:
        self._num_steps = 0

    def add(self, request: EngineRequest) -> list[CoreEvent]:
        num_tokens = len(request.prompt_token_ids) + request.sampling.max_output_tokens
        if num_tokens > MAX_MODEL_LEN:
            return [
                _event(
                    request.request_id,
                    EventKind.FINISHED,
                    disposition=Disposition.ERROR,
                    reason=f"{num_tokens} tokens are more than {MAX_MODEL_LEN}",
                )
            ]
        self._waiting.append(_Active(request))
        return []

    def finish(
        self, request_id: str, disposition: Disposition, sequence: int | None = None
    ) -> list[CoreEvent]:
        for active in [*self._active, *self._waiting]:
            if active.request.request_id == request_id and not active.is_finished:
                return [self._end(active, disposition)]
        return []

    def pause(self, request_id: str, is_paused: bool) -> None:
        for active in [*self._active, *self._waiting]:
            if active.request.request_id == request_id:
                active.is_paused = is_paused

    def schedule(self) -> list[CoreEvent]:
        released = [] if self._never_releases else self._retired
        self._retired = self._retired if self._never_releases else []
        events = [_event(a.request.request_id, EventKind.RELEASED) for a in released]
        while self._waiting and len(self._active) < self._max_num_seqs:
            active = self._waiting.popleft()
            self._active.append(active)
            events.append(_event(active.request.request_id, EventKind.SCHEDULED))
        return events

    def run(self) -> list[CoreEvent]:
        going = [active for active in self._active if not active.is_paused]
        if not going:
            return []
        self._num_steps += 1
        if self._num_steps == self._fails_at_step:
            raise RuntimeError("the echo broke")
        self._compute()
        is_new = [active.num_output_tokens == 0 for active in going]
        self._scheduled = (
            sum(
                len(active.request.prompt_token_ids)
                for active, new in zip(going, is_new, strict=True)
                if new
            ),
            is_new.count(False),
        )
        return [event for active in going for event in self._advance(active)]

    def stats(self) -> EngineStats:
        return EngineStats(
            age_seconds=0.0,
            max_num_seqs=self._max_num_seqs,
            num_running=len(self._active),
            num_waiting=len(self._waiting),
            num_unreleased=len(self._retired),
            num_steps=self._num_steps,
            prompt_tokens_scheduled=self._scheduled[0],
            decode_steps_scheduled=self._scheduled[1],
        )

    def _compute(self) -> None:
        if not self._holds_gil:
            time.sleep(self._step_seconds)
            return
        ends_at = time.monotonic() + self._step_seconds
        while time.monotonic() < ends_at:
            pass

    def _advance(self, active: _Active) -> list[CoreEvent]:
        request = active.request
        prompt = request.prompt_token_ids
        token_ids = (prompt[active.num_output_tokens % len(prompt)],)
        active.num_output_tokens += 1
        if active.num_output_tokens == 1:
            events = [
                _event(request.request_id, EventKind.PREFILL_CHUNK, num_tokens=len(prompt)),
                _event(request.request_id, EventKind.FIRST_TOKEN, token_ids=token_ids),
            ]
        else:
            events = [
                _event(request.request_id, EventKind.TOKENS, num_tokens=1, token_ids=token_ids)
            ]
        if active.num_output_tokens == request.sampling.max_output_tokens:
            events.append(self._end(active, Disposition.LENGTH))
        return events

    def _end(self, active: _Active, disposition: Disposition) -> CoreEvent:
        active.is_finished = True
        if active in self._active:
            self._active.remove(active)
        else:
            self._waiting.remove(active)
        self._retired.append(active)
        return _event(active.request.request_id, EventKind.FINISHED, disposition=disposition)


def _event(request_id: str, kind: EventKind, **fields: Any) -> CoreEvent:
    return CoreEvent(request_id=request_id, kind=kind, at=time.monotonic(), **fields)
