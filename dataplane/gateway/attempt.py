"""One submission of a request to a replica, and what its engine tells of it.

What an engine shows is anchored at the moment of its submission; what it does not show is
stamped on receipt and marked `inferred`.
"""

from dataclasses import dataclass, field, replace

import structlog

from dataplane.engine import EngineClient, EngineEvent, EngineUse
from dataplane.engine_claims import (
    Asked,
    find_impossible_event,
    find_impossible_use,
    num_tokens_of,
)
from dataplane.gateway.early_end import EarlyEnd, Wish
from dataplane.gateway.output import Ending, Output
from dataplane.gateway.registry import InFlightRequest, TransitBound
from dataplane.lifecycle import (
    ANSWERS,
    AnswerPart,
    Disposition,
    Event,
    EventKind,
    LifecycleError,
    Observability,
)
from dataplane.reasoning import is_answer, is_reasoning
from dataplane.routing.placement import Placement

_CLOCK_SECONDS = 1.0
_CLOCK_RATE = 0.01
"""By how much an engine's clock may run faster than the gateway's."""
_GATEWAY_IS_BUSY = "its gateway takes what it tells too slowly"
_log = structlog.get_logger(__name__)
# Read with every token, and a name costs a fraction of what a member of an enum does.
_TOKENS = EventKind.TOKENS
_INFERRED = Observability.INFERRED
_OBSERVED = Observability.OBSERVED


@dataclass(slots=True, eq=False)
class Attempt:
    """Notes in `request` what comes, and puts text into `output`."""

    number: int
    replica_id: str
    client: EngineClient
    placement: Placement
    request: InFlightRequest
    output: Output
    early_end: EarlyEnd
    bound: TransitBound
    asked: Asked
    """What its engine may count is held against it."""
    is_scheduled_by_us: bool
    """Its engine does not show when its work began."""
    used: EngineUse | None = None
    """What it took of its engine, once that has told."""
    _thinking: set[int] = field(default_factory=set)
    """Sequences of which reasoning came and nothing of the answer."""

    def take(self, event: EngineEvent) -> None:
        """One event of its engine. Raises LifecycleError for one that cannot follow, or cannot be
        at all."""
        if event.kind is EventKind.SCHEDULED and self.is_scheduled_by_us:
            return
        if event.num_cached_tokens is not None:
            event = self._without_untrue_cached(event)
        if self.early_end.wish is not None:
            event = self._drop(event, self.early_end.wish)
        self._apply(event)
        if event.kind is _TOKENS:  # nearly all are
            self._take_tokens(event)
            return
        match event.kind:
            case EventKind.SCHEDULED:
                self.placement.note_scheduled()
            case EventKind.PREFILL_CHUNK:
                self._take_prefill(event)
            case EventKind.FIRST_TOKEN:
                self.placement.note_first_token()
                self._take_tokens(event)
            case EventKind.PAUSED:
                self.output.backlog.is_engine_paused = True
                self.placement.forget_pace()
            case EventKind.RESUMED:
                self.output.backlog.is_engine_paused = False
            case EventKind.FINISHED:
                if self._is_failure(event):
                    self.placement.fail()
                self._take_finish(event)
            case EventKind.RELEASED:
                self._take_use(event.used)

    def _drop(self, event: EngineEvent, wish: Wish) -> EngineEvent:
        """It is being ended, and past its backlog nobody takes what comes meanwhile. Its engine may
        have come to its end by itself before it heard; without what was dropped that is no answer,
        and the request ends as was wished."""
        output = self.output
        if output.backlog.is_over and _has_content(event):
            output.has_gap = True
        if not output.has_gap or event.disposition not in ANSWERS:
            return event
        if not self.request.lifecycle.is_last(event.sequence):
            return event
        return replace(event, disposition=wish.disposition, reason=None, finish_reason=None)

    def _apply(self, event: EngineEvent) -> None:
        received_at, offset = self.request.now(), event.offset
        impossible = (
            find_impossible_event(event)
            or self.asked.find_excess(event, self.request.num_output_tokens)
            or self._find_too_soon(event, received_at)
        )
        placed = Event(
            kind=event.kind,
            at=received_at if offset is None else self.bound.anchor(offset, received_at),
            attempt=self.number,
            sequence=event.sequence,
            observability=_INFERRED if offset is None else _OBSERVED,
            num_tokens=event.num_tokens,
            num_cached_tokens=_cached_at_prefill(event),
            replica_id=self.replica_id,
            disposition=event.disposition,
            reason=self._reason_of(event),
            begins=self._begins(event) if event.delta or self._thinking else None,
        )
        if impossible is not None:
            request = self.request
            raise LifecycleError(request.request_id, request.state, placed, impossible)
        if offset is None:
            self.request.lifecycle.apply(placed)
        else:
            self.request.apply_anchored(placed, self.bound)

    def _begins(self, event: EngineEvent) -> AnswerPart | None:
        """Where an engine sets reasoning apart: with what each part begins."""
        if event.kind is EventKind.FIRST_TOKEN and is_reasoning(event.delta, event.text):
            self._thinking.add(event.sequence)
            return AnswerPart.REASONING
        if event.kind is not _TOKENS or event.sequence not in self._thinking:
            return None
        if not is_answer(event.delta, event.text):
            return None
        self._thinking.discard(event.sequence)
        return AnswerPart.ANSWER

    def _find_too_soon(self, event: EngineEvent, received_at: float) -> str | None:
        """Why it cannot have happened yet; clocks that differ a little are no lie."""
        passed = received_at - self.bound.submitted_at
        if event.offset is None or event.offset <= passed + _CLOCK_SECONDS + _CLOCK_RATE * passed:
            return None
        return f"it comes {passed:.3f} s after the submission and tells of {event.offset:.3f} s"

    def _take_use(self, used: EngineUse | None) -> None:
        impossible = None if used is None else find_impossible_use(used)
        if impossible is None:
            self.used = used
            return
        self.placement.fail()
        _log.error("an engine measures what cannot be", why=impossible, replica=self.replica_id)

    def _is_untrue(self, why: str | None) -> bool:
        """A count that cannot be, and why: it is not used, and its replica has failed."""
        if why is not None:
            self.placement.fail()
            _log.error("an engine counts what cannot be", why=why, replica=self.replica_id)
        return why is not None

    def _without_untrue_cached(self, event: EngineEvent) -> EngineEvent:
        told = event.num_cached_tokens or 0
        if event.sequence == 0 and event.kind is EventKind.PREFILL_CHUNK:
            told += self.request.num_cached_tokens or 0
        is_untrue = self._is_untrue(self.asked.find_untrue_cached(told))
        return replace(event, num_cached_tokens=None) if is_untrue else event

    def _take_counts(self, event: EngineEvent) -> None:
        """Of the whole request. Ours stay where the engine's cannot be."""
        request = self.request
        num_output, num_prompt = event.num_output_tokens, event.num_prompt_tokens
        if event.num_cached_tokens is not None:
            request.num_cached_tokens = event.num_cached_tokens
        if num_output is not None:
            why = self.asked.find_untrue_output(num_output, request.num_output_tokens)
            if self._is_untrue(why):
                request.output_tokens_observability = _INFERRED
            else:
                request.num_output_tokens = num_output
        if num_prompt is None or request.capabilities is None:
            return
        if not self._is_untrue(self.asked.find_untrue_prompt(num_prompt)):
            request.num_prompt_tokens = num_prompt
            request.prompt_tokens_observability = request.capabilities.token_counts

    def _take_tokens(self, event: EngineEvent) -> None:
        num_tokens = num_tokens_of(event)
        self.request.num_output_tokens += num_tokens
        self._put(event, num_tokens)

    def _take_prefill(self, event: EngineEvent) -> None:
        # The prompt counts once: further sequences find it in the cache, of course.
        if event.num_cached_tokens is not None and event.sequence == 0:
            num_before = self.request.num_cached_tokens or 0
            self.request.num_cached_tokens = num_before + event.num_cached_tokens
            self.placement.note_cached(self.request.num_cached_tokens)

    def _is_failure(self, event: EngineEvent) -> bool:
        """An end that its replica is to blame for: nobody wished it, and no caller caused it."""
        return (
            event.disposition is Disposition.ERROR
            and self.early_end.find_wish(event) is None
            and (event.status_code is None or event.status_code >= 500)
        )

    def _reason_of(self, event: EngineEvent) -> str | None:
        if event.kind is EventKind.PAUSED and event.reason is None:
            backlog = self.output.backlog
            return backlog.why_paused if backlog.is_paused else _GATEWAY_IS_BUSY
        wish = None if self.early_end.wish is None else self.early_end.find_wish(event)
        return event.reason or (wish.reason if wish else None)

    def _take_finish(self, event: EngineEvent) -> None:
        """The end of one sequence; with the last one, or an end that is no answer, of all."""
        request = self.request
        disposition = event.disposition
        assert disposition is not None  # the lifecycle refused it otherwise
        self._put(event, 0)
        if disposition in ANSWERS and not self.output.has_gap:
            self.output.end_sequence(event.sequence, event.finish_reason or disposition)
        if not request.lifecycle.is_terminal:
            return
        self._take_counts(event)
        # An engine that is told to end with an error cannot know whose doing it is.
        wish = self.early_end.find_wish(event)
        self.output.end(
            Ending(
                disposition=disposition,
                reason=self._reason_of(event),
                status=wish.status if wish else event.status_code,
                code=wish.code if wish else event.error_code,
            )
        )
        self.early_end.bound_wait()

    def _put(self, event: EngineEvent, num_tokens: int) -> None:
        if self.output.has_gap:
            return
        text = event.text or ""
        self.output.put(text, num_tokens, event.sequence, event.logprobs, event.delta)
        if self.request.output_parts is not None:
            self.request.keep_output(event.sequence, text, event.delta)


def _cached_at_prefill(event: EngineEvent) -> int | None:
    """Of the end it says nothing: what is told only then belongs to the whole request."""
    return event.num_cached_tokens if event.kind is EventKind.PREFILL_CHUNK else None


def _has_content(event: EngineEvent) -> bool:
    return bool(event.text or event.delta or event.num_tokens or event.token_ids)
