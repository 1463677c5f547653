"""What callers were told under overload: is every refusal whole, and how fast was it there?

Those refused on arrival are told apart from those that were let in and waited in vain by their
records, which the gateway has written meanwhile: the reason `shed` may stand for either.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dataplane.admission.admit import RejectionKind
from dataplane.lifecycle import Disposition
from ops.bench.hot_path.figures import milliseconds
from ops.bench.hot_path.overload_terms import REVISION
from ops.bench.hot_path.stream_call import End, StreamCall

GOAL_P99_MS = 10.0
_REASONS = frozenset({*map(str, RejectionKind), str(Disposition.DEADLINE), str(Disposition.SHED)})
_STATUSES = frozenset({429, 503})


class ErrorTold(msgspec.Struct):
    """What an answer says of an error; None: it does not."""

    code: str | None = None
    message: str | None = None
    policy_revision: str | None = None


class _Body(msgspec.Struct):
    error: ErrorTold


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Milliseconds from the last byte of a request's body to the last one of its refusal."""

    num: int
    p50: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """One run at one load."""

    factor: float
    """How many times the capacity was asked for."""
    num_sent: int
    num_served: int
    """Streams that came whole."""
    num_in_time: int
    """Of these, with their first text within the contract."""
    num_unanswered: int
    num_unrecorded: int
    """Answered, and without a record."""
    reasons: dict[str, int]
    """Refusals by status and reason."""
    faults: dict[str, int]
    """What refusals lack, by how many lack it."""
    on_arrival: Waited | None
    """None: nobody was refused on arrival."""
    on_arrival_by_kind: dict[str, Waited]
    """The same by length of the prompt."""
    num_waited_in_vain: int
    """Let in, and refused later: what they were told is judged, and their time is not."""
    client_behind: str | None

    @property
    def attainment(self) -> float | None:
        """Share of those served that were in time."""
        return self.num_in_time / self.num_served if self.num_served else None

    @property
    def is_sound(self) -> bool:
        """Nobody was left without an answer, and no refusal lacks anything."""
        return not (self.num_unanswered or self.num_unrecorded or self.faults)


def judge(
    factor: float,
    calls: Sequence[StreamCall],
    ends: Mapping[str, str],
    contract_seconds: float,
    client_behind: str | None,
) -> Refusals:
    """Add one run up. `ends`: dispositions on record, by request id."""
    answered = [call for call in calls if call.end is End.WHOLE]
    refused = [call for call in answered if call.is_refused]
    served = [call for call in answered if not call.is_refused]
    on_arrival = [call for call in refused if _end_of(call, ends) == Disposition.REJECTED]
    kinds = sorted({call.kind for call in on_arrival})
    return Refusals(
        factor=factor,
        num_sent=len(calls),
        num_served=len(served),
        num_in_time=sum(_is_in_time(call, contract_seconds) for call in served),
        num_unanswered=len(calls) - len(answered),
        num_unrecorded=sum(_end_of(call, ends) is None for call in refused),
        reasons=dict(Counter(f"{call.status} {read_error(call).code}" for call in refused)),
        faults=dict(Counter(fault for call in refused for fault in _faults(call))),
        on_arrival=_waited(on_arrival),
        on_arrival_by_kind={
            kind: waited
            for kind in kinds
            if (waited := _waited([call for call in on_arrival if call.kind == kind]))
        },
        num_waited_in_vain=len(refused) - len(on_arrival),
        client_behind=client_behind,
    )


def _waited(calls: Sequence[StreamCall]) -> Waited | None:
    seconds = [each for call in calls if (each := call.answer_seconds()) is not None]
    if not seconds:
        return None
    return Waited(
        num=len(seconds),
        p50=milliseconds(seconds, 0.5),
        p99=milliseconds(seconds, 0.99),
        most=milliseconds(seconds, 1.0),
    )


def _end_of(call: StreamCall, ends: Mapping[str, str]) -> str | None:
    return ends.get(call.headers.get("x-request-id", ""))


def _is_in_time(call: StreamCall, contract_seconds: float) -> bool:
    first = call.first_chunk_seconds()
    return first is not None and first <= contract_seconds


def _faults(call: StreamCall) -> Iterator[str]:
    error = read_error(call)
    if call.status not in _STATUSES:
        yield f"status {call.status}"
    if error.code not in _REASONS:
        yield f"reason {error.code}"
    if not error.message:
        yield "no message"
    if error.policy_revision != REVISION or call.headers.get("x-pilothouse-policy") != REVISION:
        yield "no policy revision"
    wait = call.headers.get("retry-after", "")
    if not (wait.isdecimal() and int(wait) >= 1):
        yield "no Retry-After"


def read_error(call: StreamCall) -> ErrorTold:
    """What a refusal says; of one that is no error of OpenAI's shape, nothing."""
    try:
        return msgspec.json.decode(call.body, type=_Body).error
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ErrorTold()
