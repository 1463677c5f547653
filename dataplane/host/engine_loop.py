"""The thread that owns the engine core: it takes commands, steps, and says what happened.

Everything between two steps happens here in order, so the core needs no lock::

    commands in ->  take what waits (submissions, cancels, lost connections)
                    schedule()   its events leave at once, before the step runs
                    run()        its events leave in one batch
                    end what completed a stop string
    events out  <-  look at the core: metrics, snapshot, leaks

A request is open here from its submission until RELEASED. One that finished and stays
open beyond its bound is a leak, and is reported as one.
"""

import contextlib
import dataclasses
import logging
import queue
from collections.abc import Iterable
from dataclasses import dataclass

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineEvent, EngineRequest, EngineStats
from dataplane.host.core import CoreEvent, EngineCore
from dataplane.host.mailbox import (
    Addressed,
    Cancellation,
    Command,
    Departure,
    Outbox,
    Pausing,
    Shutdown,
    Submission,
)
from dataplane.host.metrics import HostMetrics
from dataplane.host.output import RequestOutput
from dataplane.host.wire import RequestEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.logs import request_context, trace_id_of
from dataplane.tokenizer import Tokenizer

IDLE_TICK_SECONDS = 0.25
BLOCKED_TICK_SECONDS = 0.005
LEAK_BOUND_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Open:
    """A request that is not released."""

    connection_id: int
    request: EngineRequest
    output: RequestOutput
    finished_at: float | None = None
    cancelled_at: float | None = None
    is_leaked: bool = False
    is_paused: bool = False
    """As was told."""


class EngineLoop:
    """Runs one core. `run` belongs to the engine's thread; `commands` may be put from anywhere."""

    def __init__(
        self,
        *,
        core: EngineCore,
        tokenizer: Tokenizer,
        metrics: HostMetrics,
        clock: MonotonicClock,
        leak_bound_seconds: float = LEAK_BOUND_SECONDS,
    ) -> None:
        """`clock` is the one that the core's events are timed by. The core is loaded."""
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._core = core
        self._tokenizer = tokenizer
        self._outbox: Outbox | None = None
        self._metrics = metrics
        self._clock = clock
        self._leak_bound_seconds = leak_bound_seconds
        self._open: dict[str, _Open] = {}
        self._is_running = True
        self._snapshot = (core.stats(), clock())

    def stats(self) -> EngineStats:
        """The latest snapshot with its age now. Safe from any thread."""
        stats, taken_at = self._snapshot
        return dataclasses.replace(stats, age_seconds=stats.age_seconds + self._clock() - taken_at)

    def run(self, outbox: Outbox) -> None:
        """Take turns until Shutdown.

        What the core raises is raised on, after every request was told that it failed: a
        core whose step broke has an unknown state and must not be used again.
        """
        self._outbox = outbox
        pause = 0.0
        try:
            while self._is_running:
                self._take_commands(pause)
                pause = self._turn()
        except Exception as error:
            self._fail_all(error)
            raise

    def _turn(self) -> float:
        """One step when there is work. Returns how long to wait for commands afterwards."""
        did_something = self._step() if self._core.has_work else False
        self._observe()
        if not self._core.has_work:
            return IDLE_TICK_SECONDS
        return 0.0 if did_something else BLOCKED_TICK_SECONDS

    def _step(self) -> bool:
        started_at = self._clock()
        scheduled = self._core.schedule()
        self._take_snapshot()  # who hears of a release may ask at once what is left
        self._send(self._convert(scheduled), waits=True)
        ran = self._core.run()
        batch = self._convert(ran)
        batch += self._end_stopped()
        self._send(batch)
        if ran:  # else it only released, or was blocked
            self._metrics.observe_step(self._clock() - started_at, self._take_snapshot())
        return bool(scheduled or ran)

    def _take_commands(self, wait_seconds: float) -> None:
        try:
            if wait_seconds > 0:
                self._apply(self.commands.get(timeout=wait_seconds))
            while self._is_running:
                self._apply(self.commands.get_nowait())
        except queue.Empty:
            pass

    def _apply(self, command: Command) -> None:
        match command:
            case Submission():
                self._submit(command)
            case Cancellation():
                self._cancel(command)
            case Pausing():
                self._pause(command)
            case Departure():
                self._depart(command)
            case Shutdown():
                self._is_running = False

    def _submit(self, submission: Submission) -> None:
        request = submission.request
        # Two gateways may use one id; to the core they must differ.
        core_id = _core_id(submission.connection_id, request.request_id)
        self._open[core_id] = _Open(
            connection_id=submission.connection_id,
            request=request,
            output=RequestOutput(request, submission.received_at, self._tokenizer),
        )
        answer = self._core.add(dataclasses.replace(request, request_id=core_id))
        batch = self._convert(answer)
        if core_id in self._open and self._open[core_id].output.is_finished:
            # What the core did not even queue holds nothing, and is released at once.
            offset = self._clock() - submission.received_at
            released = EngineEvent(kind=EventKind.RELEASED, offset=offset)
            batch.append(_address(self._open.pop(core_id), released))
        self._send(batch)

    def _cancel(self, command: Cancellation) -> None:
        opened = self._open.get(_core_id(command.connection_id, command.request_id))
        if opened is not None and opened.finished_at is None:
            opened.output.explain_end(command.reason, command.status_code)
            opened.cancelled_at = command.received_at
            self._send(self._finish(opened, command.disposition))

    def _pause(self, command: Pausing) -> None:
        """Between two steps it is so at once; whoever has it submitted is told."""
        core_id, is_paused = _core_id(command.connection_id, command.request_id), command.is_paused
        self._core.pause(core_id, is_paused)
        opened = self._open.get(core_id)
        if opened is None or opened.finished_at is not None or opened.is_paused is is_paused:
            return
        if opened.output.was_scheduled:
            opened.is_paused = is_paused
            kind = EventKind.PAUSED if is_paused else EventKind.RESUMED
            event = CoreEvent(request_id=core_id, kind=kind, at=self._clock())
            self._send(self._convert([event]))

    def _depart(self, command: Departure) -> None:
        for opened in list(self._open.values()):
            if opened.connection_id == command.connection_id and opened.finished_at is None:
                opened.cancelled_at = command.received_at
                self._send(self._finish(opened, Disposition.CANCELLED))

    def _finish(
        self, opened: _Open, disposition: Disposition, sequence: int | None = None
    ) -> list[Addressed]:
        core_id = _core_id(opened.connection_id, opened.request.request_id)
        return self._convert(self._core.finish(core_id, disposition, sequence))

    def _end_stopped(self) -> list[Addressed]:
        """Finish the sequences whose stop string was completed by the step that just ran."""
        stopped = [(o, index) for o in self._open.values() for index in o.output.stopped()]
        return [event for o, index in stopped for event in self._finish(o, Disposition.STOP, index)]

    def _convert(self, events: Iterable[CoreEvent]) -> list[Addressed]:
        batch = []
        for event in events:
            opened = self._open.get(event.request_id)
            if opened is None:
                _log.error("the core told %s of an unknown request", event.kind)
                continue
            told = self._convert_counted(opened, event)
            self._follow(opened, event)
            if told is not None:
                batch.append(_address(opened, told))
        return batch

    def _convert_counted(self, opened: _Open, event: CoreEvent) -> EngineEvent | None:
        output = opened.output
        num_tokens, was_scheduled = output.num_output_tokens, output.was_scheduled
        told = output.convert(event)
        self._metrics.num_output_tokens.inc(output.num_output_tokens - num_tokens)
        if output.was_scheduled and not was_scheduled:
            self._metrics.num_input_tokens.inc(len(opened.request.prompt_token_ids))
        return told

    def _follow(self, opened: _Open, event: CoreEvent) -> None:
        match event.kind:
            case EventKind.FINISHED if opened.output.is_finished:
                opened.finished_at = self._clock()
            case EventKind.RELEASED:
                del self._open[event.request_id]
                if opened.cancelled_at is not None:
                    self._metrics.cancel_to_release.observe(self._clock() - opened.cancelled_at)

    def _observe(self) -> None:
        self._metrics.set_stats(self._take_snapshot())
        self._report_leaks()

    def _take_snapshot(self) -> EngineStats:
        stats = self._core.stats()
        self._snapshot = (stats, self._clock())
        return stats

    def _report_leaks(self) -> None:
        now = self._clock()
        for opened in self._open.values():
            if opened.finished_at is None or opened.is_leaked:
                continue
            held_seconds = now - opened.finished_at
            if held_seconds > self._leak_bound_seconds:
                opened.is_leaked = True
                self._metrics.num_leaks.inc()
                with _about(opened):
                    _log.error(
                        "request %s finished %.1f s ago and is not released: a leak",
                        opened.request.request_id,
                        held_seconds,
                    )

    def _fail_all(self, error: Exception) -> None:
        """Tell every unfinished request. None is released: the process ends with its memory."""
        finished = EngineEvent(
            kind=EventKind.FINISHED,
            disposition=Disposition.ERROR,
            status_code=500,
            reason=f"the engine failed: {type(error).__name__}: {error}",
        )
        unfinished = [o for o in self._open.values() if o.finished_at is None]
        for opened in unfinished:
            with _about(opened):
                _log.error("request %s ends with the engine", opened.request.request_id)
        self._send([_address(o, finished) for o in unfinished], waits=True)

    def _send(self, batch: list[Addressed], waits: bool = False) -> None:
        if batch and self._outbox is not None:
            self._outbox(batch, waits=waits)


def _about(opened: _Open) -> contextlib.AbstractContextManager[None]:
    """Log lines inside name the request and its trace, as the gateway's do."""
    request = opened.request
    return request_context(request.request_id, trace_id_of(request.traceparent))


def _core_id(connection_id: int, request_id: str) -> str:
    return f"{connection_id}/{request_id}"


def _address(opened: _Open, event: EngineEvent) -> Addressed:
    return Addressed(opened.connection_id, RequestEvent(opened.request.request_id, event))
