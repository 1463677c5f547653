"""The engine side of one request: from the queue through its attempts until it is released.

It runs beside the client side and never waits for it, so a slow client holds no slot and a
client that left leaves the engine's events to be drained to their end. A slot is a lease
around the attempt, and a request loses its replica at most once before it is given up.

What an engine shows is anchored at the moment of its submission; what it does not show is
stamped on receipt and marked `inferred`.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Set
from dataclasses import dataclass, field

import msgspec
import structlog

from dataplane.attempts import MAX_ATTEMPTS, RETRY_BUDGET_SPENT, may_try_again
from dataplane.engine import (
    EngineCapabilities,
    EngineClient,
    EngineEvent,
    EngineRequest,
    EngineUnavailableError,
    EngineUse,
)
from dataplane.gateway.fleet import Fleet
from dataplane.gateway.output import Ending, Output
from dataplane.gateway.queue_wait import wait_until_left
from dataplane.gateway.registry import InFlightRequest, TransitBound
from dataplane.lifecycle import (
    ANSWERS,
    Disposition,
    Event,
    EventKind,
    LifecycleError,
    Observability,
)
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket
from dataplane.routing.placement import Placement

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Attempt:
    """One submission."""

    number: int
    replica_id: str
    client: EngineClient
    bound: TransitBound
    is_scheduled_by_us: bool
    placement: Placement
    used: EngineUse | None = None
    """What it took of its engine, once that has told."""


@dataclass(slots=True, eq=False)
class EngineSide:
    """Takes `request` from admitted to released, and puts its text into `output`.

    `template` is the submission; each attempt numbers its own copy.
    """

    request: InFlightRequest
    request_class: ClassPolicy
    demand: QueueDemand
    template: EngineRequest
    queue: DeploymentQueue
    fleet: Fleet
    output: Output
    release_seconds: float
    needs: Set[str] = frozenset()
    """Parameters that its engine must take."""
    may_retry: Callable[[], bool] = lambda: True
    """Asked once, before it is sent to another replica."""
    _ticket: Ticket | None = None
    _attempt: _Attempt | None = None
    _limit: asyncio.Timeout | None = None
    _stop: Departure | None = None
    """Set once somebody wants it to end."""
    _cancels: set["asyncio.Task[None]"] = field(default_factory=set)

    def enter_queue(self) -> None:
        """Take its place, before anybody else is decided on; `run` waits in it."""
        self._enter(frozenset())

    def close(self) -> None:
        """Leave the place of one that was ended before it could run; else nothing is left to do."""
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return
        reason = "the gateway failed"
        self.queue.leave(ticket, Departure(disposition=Disposition.ERROR, reason=reason))
        if isinstance(ticket.outcome, Lease):
            ticket.outcome.release()
        self._finish(Disposition.ERROR, reason, status=500)

    def cancel(self, disposition: Disposition, reason: str) -> None:
        """Ask for an early end. The lifecycle says, later, how it really ended."""
        if self._stop is not None or self.request.lifecycle.is_terminal:
            return
        self._stop = Departure(disposition=disposition, reason=reason)
        if self._ticket is not None:
            self.queue.leave(self._ticket, self._stop)
        if self._attempt is not None:
            self._send_cancel(self._attempt, disposition)

    async def run(self) -> None:
        """Returns when nothing more is to be expected of any engine. Ends the output."""
        try:
            await self._run_attempts()
        finally:
            if not self.request.lifecycle.is_terminal:
                self._finish(Disposition.ERROR, "the gateway failed", status=500)
            for task in self._cancels:
                task.cancel()

    async def _run_attempts(self) -> None:
        lost: list[EngineUnavailableError] = []
        for number in range(MAX_ATTEMPTS):
            outcome = await self._leave_queue(frozenset(error.replica_id for error in lost))
            if isinstance(outcome, Departure):
                self._finish_unserved(outcome, lost)
                return
            self._note_routing(number, outcome.placement)
            with outcome as lease:
                error = await self._run_attempt(number, lease)
                if error is not None:
                    lease.placement.fail()
                lease.settle(0 if error else self._num_tokens())
            if error is None:
                return
            lost.append(error)
            self.fleet.doubt(error.replica_id, error.why)
            if self._stop is not None or not may_try_again(self.request.state, number + 1):
                break
            if not self.may_retry():
                why = f"{error.why}; {RETRY_BUDGET_SPENT}"
                lost[-1] = EngineUnavailableError(error.replica_id, why)
                break
        self._finish_lost(lost[-1])

    def _note_routing(self, number: int, placement: Placement) -> None:
        if placement.decision is not None:
            version = self.fleet.snapshot_version
            self.request.routing.append(
                msgspec.structs.replace(
                    placement.decision, attempt=number, snapshot_version=version
                )
            )

    async def _leave_queue(self, excluded: frozenset[str]) -> Lease | Departure:
        ticket = self._ticket
        if ticket is None:
            if self._stop is not None:
                return self._stop
            ticket = self._enter(excluded)
        try:
            return await wait_until_left(ticket)
        finally:
            self._ticket = self.request.ticket = None

    def _enter(self, excluded: frozenset[str]) -> Ticket:
        ticket = self.queue.enter(self.request_class, self.demand, excluded)
        self._ticket = self.request.ticket = ticket
        return ticket

    async def _run_attempt(self, number: int, lease: Lease) -> EngineUnavailableError | None:
        """One submission, drained to its end; the error when the replica was lost on the way."""
        if self._stop is not None:
            self._finish(self._stop.disposition, self._stop.reason)
            return None
        client = self.fleet.find_client(lease.replica_id)
        if client is None:
            return EngineUnavailableError(lease.replica_id, "it was lost before the submission")
        lacking = self.needs - client.capabilities.parameters
        if lacking:  # what nobody could know before its replica had told
            self._finish(Disposition.INVALID, explain_lacking(lacking, client.capabilities), 400)
            return None
        self._attempt = attempt = self._open_attempt(number, lease.placement, client)
        num_sequences = self.template.sampling.num_sequences
        stay = self.fleet.shared_time.enter(lease.replica_id, num_sequences)
        try:
            async with asyncio.timeout(None) as self._limit:
                await self._drain(attempt)
        except EngineUnavailableError as error:
            attempt.placement.fail()
            return None if self._note_gone(attempt, error) else error
        except TimeoutError:
            self._note_silent(attempt)
        except LifecycleError as error:
            _log.error("the engine broke its contract", error=str(error), replica=lease.replica_id)
            lease.placement.fail()
            if not self.request.lifecycle.is_terminal:
                why = f"the engine broke its contract: {error}"
                self._finish(Disposition.ERROR, why, status=502)
            await self._cancel_attempt(attempt, Disposition.ERROR)
        finally:
            self._attempt = self._limit = None
            stay.release()
            self.request.metering.add(attempt.used, stay.seconds)
        return None

    def _num_tokens(self) -> int:
        """What it took of an engine: of one that never came to work, nothing."""
        request = self.request
        if not request.lifecycle.was_scheduled:
            return 0
        return (request.num_prompt_tokens or 0) + request.num_output_tokens

    def _open_attempt(self, number: int, placement: Placement, client: EngineClient) -> _Attempt:
        request, replica_id = self.request, placement.replica_id
        capabilities = client.capabilities
        request.replica_ids.append(replica_id)
        request.capabilities = capabilities
        request.num_cached_tokens = None  # what a lost replica had cached spared nothing
        request.on_progress()
        submitted_at = request.now()
        is_blind = capabilities.prefill is not Observability.OBSERVED
        if is_blind:
            request.apply(
                EventKind.SCHEDULED,
                submitted_at,
                attempt=number,
                replica_id=replica_id,
                observability=Observability.INFERRED,
            )
        return _Attempt(
            number=number,
            replica_id=replica_id,
            client=client,
            bound=TransitBound(submitted_at),
            is_scheduled_by_us=is_blind,
            placement=placement,
        )

    async def _drain(self, attempt: _Attempt) -> None:
        submission = dataclasses.replace(self.template, attempt=attempt.number)
        async with _closing(attempt.client.submit(submission)) as events:
            async for event in events:
                self._take(attempt, event)
        if not self.request.lifecycle.is_terminal:
            raise EngineUnavailableError(attempt.replica_id, "its events ended without an end")

    def _take(self, attempt: _Attempt, event: EngineEvent) -> None:
        if event.kind is EventKind.SCHEDULED and attempt.is_scheduled_by_us:
            return
        request = self.request
        self._apply(attempt, event)
        match event.kind:
            case EventKind.SCHEDULED:
                attempt.placement.note_scheduled()
            case EventKind.PREFILL_CHUNK:
                # The prompt counts once: further sequences find it in the cache, of course.
                if event.num_cached_tokens is not None and event.sequence == 0:
                    request.num_cached_tokens = event.num_cached_tokens + (
                        request.num_cached_tokens or 0
                    )
                    attempt.placement.note_cached(request.num_cached_tokens)
            case EventKind.FIRST_TOKEN | EventKind.TOKENS:
                attempt.placement.note_first_token()
                num_tokens = _num_tokens(event)
                request.num_output_tokens += num_tokens
                self._put(event, num_tokens)
            case EventKind.FINISHED:
                if self._is_failure(event):
                    attempt.placement.fail()
                self._take_finish(event)
            case EventKind.RELEASED:
                attempt.used = event.used

    def _apply(self, attempt: _Attempt, event: EngineEvent) -> None:
        received_at = self.request.now()
        is_inferred = event.offset is None
        placed = Event(
            kind=event.kind,
            at=received_at
            if event.offset is None
            else attempt.bound.anchor(event.offset, received_at),
            attempt=attempt.number,
            sequence=event.sequence,
            observability=Observability.INFERRED if is_inferred else Observability.OBSERVED,
            num_tokens=event.num_tokens,
            num_cached_tokens=event.num_cached_tokens,
            replica_id=attempt.replica_id,
            disposition=event.disposition,
            reason=self._reason_of(event),
        )
        if is_inferred:
            self.request.lifecycle.apply(placed)
        else:
            self.request.apply_anchored(placed, attempt.bound)

    def _is_failure(self, event: EngineEvent) -> bool:
        """An end that its replica is to blame for: nobody wished it, and no caller caused it."""
        return (
            event.disposition is Disposition.ERROR
            and self._find_stop(event) is None
            and (event.status_code is None or event.status_code >= 500)
        )

    def _find_stop(self, event: EngineEvent) -> Departure | None:
        """The wish that this end fulfils; None where the engine came to it by itself."""
        if self._stop is None or event.kind is not EventKind.FINISHED:
            return None
        return self._stop if event.disposition is self._stop.disposition else None

    def _reason_of(self, event: EngineEvent) -> str | None:
        stop = self._find_stop(event)
        return event.reason or (stop.reason if stop else None)

    def _take_finish(self, event: EngineEvent) -> None:
        """The end of one sequence; with the last one, or an end that is no answer, of all."""
        request = self.request
        disposition = event.disposition
        assert disposition is not None  # the lifecycle refused it otherwise
        self._put(event, 0)
        if disposition in ANSWERS:
            self.output.end_sequence(event.sequence, event.finish_reason or disposition)
        if not request.lifecycle.is_terminal:
            return
        if event.num_output_tokens is not None:
            request.num_output_tokens = event.num_output_tokens
        if event.num_prompt_tokens is not None and request.capabilities is not None:
            request.num_prompt_tokens = event.num_prompt_tokens
            request.prompt_tokens_observability = request.capabilities.token_counts
        # An engine that is told to end with an error cannot know whose doing it is.
        status = 503 if self._find_stop(event) else event.status_code
        self._end_output(
            Ending(disposition=disposition, reason=self._reason_of(event), status=status)
        )

    def _put(self, event: EngineEvent, num_tokens: int) -> None:
        text = event.text or ""
        self.output.put(text, num_tokens, event.sequence, event.logprobs, event.delta)
        self.request.keep_output(event.sequence, text, event.delta)

    def _end_output(self, ending: Ending) -> None:
        self.output.end(ending)
        if self._limit is not None:
            self._bound_wait(self._limit)

    def _bound_wait(self, limit: asyncio.Timeout) -> None:
        """From here on the engine has only so long to release what it holds."""
        limit.reschedule(asyncio.get_running_loop().time() + self.release_seconds)

    def _send_cancel(self, attempt: _Attempt, disposition: Disposition) -> None:
        task = asyncio.create_task(
            self._cancel_attempt(attempt, disposition), name=f"cancel {self.request.request_id}"
        )
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)
        if self._limit is not None:
            self._bound_wait(self._limit)

    async def _cancel_attempt(self, attempt: _Attempt, disposition: Disposition) -> None:
        # A replica that is lost tells so through the events of the submission as well.
        with contextlib.suppress(EngineUnavailableError):
            await attempt.client.cancel(self.request.request_id, disposition)

    def _finish(self, disposition: Disposition, reason: str, status: int = 503) -> None:
        """An end that no engine told. 503: of most of them the service may have recovered soon."""
        self.request.apply(
            EventKind.FINISHED,
            attempt=self.request.lifecycle.attempt,
            disposition=disposition,
            reason=reason,
        )
        self.output.end(Ending(disposition=disposition, reason=reason, status=status))

    def _finish_unserved(self, departure: Departure, lost: list[EngineUnavailableError]) -> None:
        reason = departure.reason
        if lost and departure.disposition is Disposition.ERROR:
            reason = f"{lost[-1]}; {reason}"
        self._finish(departure.disposition, reason)
        if lost:
            self._release_with_replica(lost[-1])

    def _finish_lost(self, error: EngineUnavailableError) -> None:
        self._finish(Disposition.ERROR, str(error))
        self._release_with_replica(error)

    def _note_gone(self, attempt: _Attempt, error: EngineUnavailableError) -> bool:
        """The replica vanished; True when the request had ended, or was being ended, anyway."""
        if self.request.lifecycle.is_terminal:
            self.fleet.doubt(attempt.replica_id, error.why)
        elif self._stop is not None:
            self.fleet.doubt(attempt.replica_id, error.why)
            self._finish(self._stop.disposition, self._stop.reason)
        else:
            return False
        self._release_with_replica(error)
        return True

    def _release_with_replica(self, error: EngineUnavailableError) -> None:
        """What a vanished replica held is gone with it, though nobody saw it happen."""
        lifecycle = self.request.lifecycle
        if lifecycle.was_scheduled and not lifecycle.is_released:
            self.request.apply(
                EventKind.RELEASED,
                attempt=lifecycle.attempt,
                replica_id=error.replica_id,
                observability=Observability.INFERRED,
                reason=f"the replica is gone: {error.why}",
            )

    def _note_silent(self, attempt: _Attempt) -> None:
        """The engine did not confirm an end, or a release, within its bound: a leak."""
        request = self.request
        attempt.placement.fail()
        _log.error(
            "the engine did not release a request in time",
            replica_id=attempt.replica_id,
            bound_seconds=self.release_seconds,
            state=request.state,
        )
        if not request.lifecycle.is_terminal:
            stop = self._stop or Departure(disposition=Disposition.ERROR, reason="it stalled")
            self._finish(stop.disposition, f"{stop.reason}; the engine did not confirm the end")


def explain_lacking(parameters: Set[str], capabilities: EngineCapabilities) -> str:
    """What is told of parameters that an engine does not take."""
    names = ", ".join(f"'{name}'" for name in sorted(parameters))
    turns = " (and turns of tools among the messages)" if "tools" in parameters else ""
    return f"{names}{turns}: not supported by the engine '{capabilities.engine}'; leave it out"


def _num_tokens(event: EngineEvent) -> int:
    if event.num_tokens is not None:
        return event.num_tokens
    return len(event.token_ids) or 1


@contextlib.asynccontextmanager
async def _closing(
    events: AsyncIterator[EngineEvent],
) -> AsyncIterator[AsyncIterator[EngineEvent]]:
    """Close the iterator however the loop over it ends, if it is a generator."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
