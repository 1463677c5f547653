"""The order of one turn: what leaves when, and what the core is told."""

from collections.abc import Callable, Sequence

from dataplane.clock import monotonic_clock
from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent
from dataplane.host.engine_loop import EngineLoop
from dataplane.host.mailbox import Addressed, Cancellation, Departure, Shutdown, Submission
from dataplane.host.metrics import HostMetrics
from dataplane.lifecycle import Disposition, EventKind
from dataplane.tokenizer import Tokenizer
from tests.dataplane.host.echo_engine import EchoCore
from tests.dataplane.host.served_engine import SPEC

MakeRequest = Callable[..., EngineRequest]


class _TracedCore(EchoCore):
    """Writes its calls into the same list as the outbox; shuts down when all is released."""

    def __init__(self, trace: list[str], during_first_run: Callable[[], None]) -> None:
        super().__init__()
        self._trace = trace
        self._during_first_run = during_first_run

    def schedule(self) -> list[CoreEvent]:
        self._trace.append("schedule()")
        return super().schedule()

    def run(self) -> list[CoreEvent]:
        self._trace.append("run()")
        if self._trace.count("run()") == 1:
            self._during_first_run()
        return super().run()


def _run(
    tokenizer: Tokenizer,
    commands: list[Submission | Cancellation | Departure],
    during_first_run: Sequence[Cancellation] = (),
) -> list[str]:
    """Run a loop over `commands` until everything is released; what happened, in order."""
    trace: list[str] = []

    def come_late() -> None:
        for command in during_first_run:
            loop.commands.put(command)

    loop = EngineLoop(
        core=_TracedCore(trace, come_late),
        tokenizer=tokenizer,
        metrics=HostMetrics(SPEC),
        clock=monotonic_clock,
    )
    num_open = sum(isinstance(command, Submission) for command in commands)

    def outbox(batch: list[Addressed], *, waits: bool) -> None:
        nonlocal num_open
        how = "sent and waited" if waits else "sent"
        trace.append(f"{how}: {' '.join(addressed.item.event.kind for addressed in batch)}")
        num_open -= sum(a.item.event.kind is EventKind.RELEASED for a in batch)
        if num_open == 0:
            loop.commands.put(Shutdown())

    for command in commands:
        loop.commands.put(command)
    loop.run(outbox)
    return trace


def _submit(request: EngineRequest, connection_id: int = 1) -> Submission:
    return Submission(connection_id=connection_id, request=request, received_at=monotonic_clock())


def test_what_schedule_tells_is_with_the_sockets_before_the_step_runs(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    assert _run(tokenizer, [_submit(make_request(max_output_tokens=2))]) == [
        "schedule()",
        "sent and waited: scheduled",
        "run()",
        "sent: prefill_chunk first_token",
        "schedule()",
        "run()",
        "sent: tokens finished",
        "schedule()",
        "sent and waited: released",
        "run()",
    ]


def test_the_events_of_all_requests_in_a_step_leave_in_one_batch(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    commands = [_submit(make_request(f"r{i}", max_output_tokens=1)) for i in range(3)]
    trace = _run(tokenizer, [*commands])
    assert trace[1] == "sent and waited: scheduled scheduled scheduled"
    assert trace[3].count("finished") == 3


def test_a_stop_ends_a_request_within_the_step_that_completes_it(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    trace = _run(tokenizer, [_submit(make_request(max_output_tokens=9, stop=("b",)))])
    assert trace[5:] == [
        "run()",
        "sent: tokens finished",
        "schedule()",
        "sent and waited: released",
        "run()",
    ]


def test_a_departure_cancels_what_the_connection_owns_and_nothing_else(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    trace = _run(
        tokenizer,
        [
            _submit(make_request(max_output_tokens=1), connection_id=1),
            _submit(make_request(max_output_tokens=1), connection_id=2),
            Departure(connection_id=1, received_at=monotonic_clock()),
        ],
    )
    assert trace[:2] == ["sent: finished", "schedule()"]
    assert trace[2] == "sent and waited: released scheduled"


def test_cancels_of_unknown_requests_do_nothing(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    cancel = Cancellation(
        connection_id=1,
        request_id="?",
        disposition=Disposition.CANCELLED,
        received_at=monotonic_clock(),
    )
    trace = _run(tokenizer, [cancel, _submit(make_request(max_output_tokens=1)), cancel])
    assert trace[0] == "schedule()"


def test_cancels_that_arrive_while_a_step_runs_are_all_released_before_the_next_one(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    names = [f"r{i}" for i in range(8)]
    cancels = [
        Cancellation(
            connection_id=1,
            request_id=name,
            disposition=Disposition.CANCELLED,
            received_at=monotonic_clock(),
        )
        for name in names
    ]
    submissions = [_submit(make_request(name, max_output_tokens=9)) for name in names]
    trace = _run(tokenizer, [*submissions], during_first_run=cancels)
    until_released = trace[: trace.index("sent and waited: " + " ".join(["released"] * 8))]
    assert until_released.count("run()") == 1
