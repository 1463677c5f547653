"""The engine side of one request: from the queue through its attempts until it is released.

It runs beside the client side and never waits for it, so a slow client holds no slot and a
client that left leaves the engine's events to be drained to their end. A slot is a lease
around the attempt, and a request loses its replica at most once before it is given up.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Set
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
)
from dataplane.engine_claims import Asked
from dataplane.gateway.attempt import Attempt
from dataplane.gateway.early_end import EarlyEnd, Wish
from dataplane.gateway.fleet import Fleet
from dataplane.gateway.output import Output
from dataplane.gateway.queue_place import QueuePlace
from dataplane.gateway.registry import InFlightRequest, TransitBound
from dataplane.gateway.slow_client import SlowClient
from dataplane.gateway.untold_end import UntoldEnd
from dataplane.lifecycle import Disposition, EventKind, LifecycleError, Observability
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand
from dataplane.routing.placement import Placement

_log = structlog.get_logger(__name__)
_FAILED = "the gateway failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Where a request waits, and with what it is submitted there."""

    queue: DeploymentQueue
    demand: QueueDemand
    template: EngineRequest
    """The submission; each attempt numbers its own copy."""
    is_length_open: bool = False
    """Its caller set no limit: whoever serves it sets it, by the room it has."""


StandIn = Callable[[], Awaitable[Lane | None]]
"""The lane of the stable arm, for a request of a candidate that is lost; None: that one cannot
serve it."""


@dataclass(slots=True, eq=False)
class EngineSide:
    """Takes `request` from admitted to released, and puts its text into `output`."""

    request: InFlightRequest
    request_class: ClassPolicy
    lane: Lane
    fleet: Fleet
    output: Output
    release_seconds: float
    needs: Set[str] = frozenset()
    """Parameters that its engine must take."""
    may_retry: Callable[[], bool] = lambda: True
    """Asked once, before it is sent to another replica."""
    stand_in: StandIn | None = None
    """Asked once, where its own lane loses its replicas."""
    _place: QueuePlace = field(init=False)
    _early_end: EarlyEnd = field(init=False)
    _untold_end: UntoldEnd = field(init=False)

    def __post_init__(self) -> None:
        self._place = self._place_in(self.lane)
        self._early_end = EarlyEnd(self.request.request_id, self.release_seconds)
        self._untold_end = UntoldEnd(self.request, self.output, self._early_end)
        self.request.backlog = self.output.backlog

    def _place_in(self, lane: Lane) -> QueuePlace:
        return QueuePlace(self.request, self.request_class, lane.demand, lane.queue)

    def enter_queue(self) -> None:
        """Take its place, before anybody else is decided on; `run` waits in it."""
        self._place.enter()

    def close(self) -> None:
        """Leave the place of one that was ended before it could run; else nothing is left to do."""
        if self._place.is_taken:
            self._place.close(Departure(disposition=Disposition.ERROR, reason=_FAILED))
            self._untold_end.finish(Disposition.ERROR, _FAILED, status=500)

    def cancel(self, disposition: Disposition, reason: str) -> None:
        """Ask for an early end. The lifecycle says, later, how it really ended."""
        if self._early_end.wish is not None or self.request.lifecycle.is_terminal:
            return
        self._end_early(Wish(disposition=disposition, reason=reason))

    def _end_early(self, wish: Wish) -> None:
        self._place.leave(wish.departure)
        self._early_end.ask(wish)
        self.output.let_go()

    async def run(self) -> None:
        """Returns when nothing more is to be expected of any engine. Ends the output."""
        try:
            await self._run_attempts()
        finally:
            self._untold_end.finish_if_open(Disposition.ERROR, _FAILED, status=500)
            self._early_end.close()

    async def _run_attempts(self) -> None:
        lost: list[EngineUnavailableError] = []
        for number in range(MAX_ATTEMPTS):
            outcome = await self._leave_queue(frozenset(error.replica_id for error in lost))
            if isinstance(outcome, Departure):
                self._untold_end.finish_unserved(outcome, lost)
                return
            self._note_routing(number, outcome.placement)
            with outcome as lease:
                error = await self._run_attempt(number, lease)
                if error is None:
                    self._settle(lease)
                    return
                lease.placement.fail()
                lease.settle(0)
            lost.append(error)
            self.fleet.doubt(error.replica_id, error.why)
            if self._early_end.wish or not may_try_again(self.request.state, number + 1):
                break
            if not self.may_retry():
                why = f"{error.why}; {RETRY_BUDGET_SPENT}"
                lost[-1] = EngineUnavailableError(error.replica_id, why)
                break
        self._untold_end.finish_lost(lost[-1])

    def _note_routing(self, number: int, placement: Placement) -> None:
        if placement.decision is not None:
            version = self.fleet.snapshot_version
            self.request.routing.append(
                msgspec.structs.replace(
                    placement.decision, attempt=number, snapshot_version=version
                )
            )

    async def _leave_queue(self, excluded: frozenset[str]) -> Lease | Departure:
        if not self._place.is_taken:
            if excluded:
                await self._stand_in()
            if self._early_end.wish is not None:
                return self._early_end.wish.departure
            self._place.enter(excluded)
        outcome = await self._place.wait()
        if not isinstance(outcome, Departure) or not outcome.is_unserved:
            return outcome
        if not await self._stand_in():
            return outcome
        return await self._leave_queue(excluded)

    async def _stand_in(self) -> bool:
        """Whether it waits elsewhere from now on. Once."""
        ask, self.stand_in = self.stand_in, None
        lane = None if ask is None else await ask()
        if lane is None:
            return False
        self.lane = lane
        self._place = self._place_in(lane)
        return True

    async def _run_attempt(self, number: int, lease: Lease) -> EngineUnavailableError | None:
        """One submission, drained to its end; the error when the replica was lost on the way."""
        if self._early_end.wish is not None:
            self._untold_end.finish_as_wished(self._early_end.wish)
            return None
        client = self.fleet.find_client(lease.replica_id)
        if client is None:
            return EngineUnavailableError(lease.replica_id, "it was lost before the submission")
        lacking = self.needs - client.capabilities.parameters
        if lacking:  # what nobody could know before its replica had told
            why = explain_lacking(lacking, client.capabilities)
            self._untold_end.finish(Disposition.INVALID, why, status=400)
            return None
        self._shorten(client.capabilities)
        attempt = self._open_attempt(number, lease.placement, client)
        num_sequences = self.lane.template.sampling.num_sequences
        stay = self.fleet.shared_time.enter(lease.replica_id, num_sequences)
        try:
            async with asyncio.timeout(None) as limit:
                self._early_end.attend(client, limit)
                await self._drain(attempt)
        except EngineUnavailableError as error:
            return self._note_gone(attempt, error)
        except TimeoutError:
            attempt.placement.fail()
            self._untold_end.finish_silent(attempt.replica_id)
        except LifecycleError as error:
            await self._note_broken(attempt, error)
        finally:
            self._early_end.leave()
            stay.release()
            self.request.metering.add(attempt.used, stay.seconds)
        return None

    def _shorten(self, capabilities: EngineCapabilities) -> None:
        """An answer of no asked length to what its replica has room for. One that came before any
        replica was reached was counted against no length at all, and would be refused."""
        lane, most = self.lane, capabilities.max_model_len
        is_exact = self.request.prompt_tokens_observability is Observability.OBSERVED
        if not lane.is_length_open or most is None or not is_exact:
            return
        room = most - (self.request.num_prompt_tokens or 0)
        sampling = lane.template.sampling
        if not 1 <= room < sampling.max_output_tokens:
            return
        sampling = dataclasses.replace(sampling, max_output_tokens=room)
        template = dataclasses.replace(lane.template, sampling=sampling)
        self.lane = dataclasses.replace(lane, template=template)
        self.request.max_output_tokens = room

    def _note_gone(
        self, attempt: Attempt, error: EngineUnavailableError
    ) -> EngineUnavailableError | None:
        """The replica vanished; None when the request had ended, or was being ended, anyway."""
        attempt.placement.fail()
        if not self._untold_end.finish_gone(error):
            return error
        self.fleet.doubt(attempt.replica_id, error.why)
        return None

    async def _note_broken(self, attempt: Attempt, error: LifecycleError) -> None:
        _log.error("the engine broke its contract", error=str(error), replica=attempt.replica_id)
        attempt.placement.fail()
        why = f"the engine broke its contract: {error}"
        self._untold_end.finish_if_open(Disposition.ERROR, why, status=502)
        await self._early_end.cancel_at(attempt.client, Disposition.ERROR)

    def _settle(self, lease: Lease) -> None:
        """What it took of an engine: of one that never came to work, nothing."""
        request = self.request
        if not request.lifecycle.was_scheduled:
            lease.settle(0)
            return
        num_output = request.num_output_tokens
        lease.settle((request.num_prompt_tokens or 0) + num_output, num_output_tokens=num_output)

    def _open_attempt(self, number: int, placement: Placement, client: EngineClient) -> Attempt:
        request, replica_id = self.request, placement.replica_id
        capabilities = client.capabilities
        request.replica_ids.append(replica_id)
        request.capabilities = capabilities
        request.replica = self.fleet.find_endpoint(replica_id)
        request.num_cached_tokens = None  # what a lost replica had cached spared nothing
        request.note_progress()
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
        return Attempt(
            number=number,
            replica_id=replica_id,
            client=client,
            placement=placement,
            request=request,
            output=self.output,
            early_end=self._early_end,
            bound=TransitBound(submitted_at),
            asked=Asked.of(self.lane.template, capabilities, self.lane.demand.num_bytes),
            is_scheduled_by_us=is_blind,
        )

    async def _drain(self, attempt: Attempt) -> None:
        submission = dataclasses.replace(self.lane.template, attempt=attempt.number)
        slow_client = SlowClient(attempt, self._end_early)
        try:
            async with _closing(attempt.client.submit(submission)) as events:
                async for event in events:
                    attempt.take(event)
                    if self.output.backlog.is_over:
                        await slow_client.attend()
        finally:
            slow_client.close()
        if not self.request.lifecycle.is_terminal:
            raise EngineUnavailableError(attempt.replica_id, "its events ended without an end")


def explain_lacking(parameters: Set[str], capabilities: EngineCapabilities) -> str:
    """What is told of parameters that an engine does not take."""
    names = ", ".join(f"'{name}'" for name in sorted(parameters))
    turns = " (and turns of tools among the messages)" if "tools" in parameters else ""
    return f"{names}{turns}: not supported by the engine '{capabilities.engine}'; leave it out"


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
