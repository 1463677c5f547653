"""The audit: the clients' own accounts against what the control plane has on record.

Pure, but for reading the request database. Every finding is a sentence about what is wrong;
none at all is what is hoped for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from controlplane.store.database import Database
from controlplane.store.request_tables import GatewayLossRow, MinuteCountRow, RequestRow
from dataplane.lifecycle import Delivery, Disposition
from ops.endurance.attempt import Attempt, End, Kind
from ops.endurance.blows import Struck

_MAX_EXAMPLES = 5
_SECOND_NS = 10**9
_END_SECONDS = {"SIGKILL": 2, "SIGTERM": 12}
"""For how long after a blow a gateway may still be there; what it never read is then cut off."""
_UNREAD_SECONDS = 1
"""How long what a client sent may lie unread at a gateway that nobody has struck."""
_ANSWERED = frozenset({Disposition.STOP.value, Disposition.LENGTH.value})
_KNOWN_ENDS = frozenset(each.value for each in Disposition)


@dataclass(slots=True)
class Findings:
    """What is wrong, by sentence, with how often and a few examples."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, what: str, example: str = "") -> None:
        """Once more."""
        self.counts[what] += 1
        if example and len(self.examples[what]) < _MAX_EXAMPLES:
            self.examples[what].append(example)

    def lines(self) -> list[str]:
        """One for each kind."""
        return [
            f"{what}: {count}"
            + (f" (such as {'; '.join(self.examples[what])})" if self.examples[what] else "")
            for what, count in sorted(self.counts.items())
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one gateway last told of itself."""

    num_arrived: int
    """Requests that it had numbered by then: each has a record in the end, however it ended."""
    num_lost: int | None = None
    """Records that it had to give up; None when it was heard in mid-flight, and may have lost
    more since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """How many attempts came to what, and what is wrong."""

    num_attempts: int
    num_recorded: int
    num_refusals: int
    """Connections that were refused before the attempt found a gateway; it was then repeated."""
    never_arrived: dict[str, int]
    """Attempts of which no gateway read a whole head, by reason: nobody has them on record."""
    by_disposition: dict[str, int]
    by_kind: dict[str, int]
    num_strangers: int
    """Records of requests that no client of ours sent: the supervisors' proofs of readiness."""
    wrong: list[str]


def audit(
    database: Database,
    attempts: Sequence[Attempt],
    struck: Sequence[Struck],
    tallies: Mapping[str, Tally],
) -> Accounts:
    """Compare everything; `tallies` are by gateway id."""
    wrong = Findings()
    with database.reading() as session:
        rows = list(session.scalars(select(RequestRow)))
        counts = list(session.scalars(select(MinuteCountRow)))
        losses = {row.gateway_id: row.num_lost for row in session.scalars(select(GatewayLossRow))}
    rows_by_trace = defaultdict(list)
    for row in rows:
        rows_by_trace[row.trace_id].append(row)
    never_arrived: Counter[str] = Counter()
    gateway_blows = [each for each in struck if each.role == "gateway"]
    for attempt in attempts:
        found = rows_by_trace.pop(attempt.trace_id, [])
        if len(found) == 1:
            _compare(attempt, found[0], wrong)
        elif found:
            wrong.add("one request with several records", attempt.trace_id)
        else:
            why = _excuse(attempt, gateway_blows)
            never_arrived[why or "UNEXPLAINED"] += 1
            if why is None:
                example = f"attempt {attempt.number} ({attempt.kind}), trace {attempt.trace_id}"
                wrong.add(f"no record of an attempt that ended with {attempt.end}", example)
    _check_sequences(rows, tallies, wrong)
    _check_losses(losses, tallies, wrong)
    _check_minutes(rows, counts, wrong)
    return Accounts(
        num_attempts=len(attempts),
        num_recorded=len(rows) - sum(len(each) for each in rows_by_trace.values()),
        num_refusals=sum(attempt.num_refusals for attempt in attempts),
        never_arrived=dict(never_arrived),
        by_disposition=dict(Counter(row.disposition for row in rows).most_common()),
        by_kind=dict(Counter(f"{each.kind}: {each.end}" for each in attempts).most_common()),
        num_strangers=sum(len(each) for each in rows_by_trace.values()),
        wrong=wrong.lines(),
    )


def _compare(attempt: Attempt, row: RequestRow, wrong: Findings) -> None:
    """One attempt and its record must tell the same story."""
    example = f"attempt {attempt.number} ({attempt.kind}, {attempt.end}), request {row.request_id}"
    if row.disposition not in _KNOWN_ENDS:
        wrong.add(f"an end that does not exist, {row.disposition}", example)
    if attempt.request_id not in (None, row.request_id):
        wrong.add("another request id than the client was told", example)
    if row.disposition == Disposition.LOST.value:
        return  # its gateway died, perhaps after the last byte: it cannot know more
    if attempt.status not in (None, row.status_code):
        wrong.add(f"status {row.status_code} on record, {attempt.status} at the client", example)
    if attempt.end is End.WHOLE and attempt.status == 200:
        if row.disposition not in _ANSWERED or row.delivery != Delivery.COMPLETE.value:
            wrong.add(f"{row.disposition}, {row.delivery} of a whole answer", example)
        if attempt.num_output_tokens != row.num_output_tokens:
            wrong.add("another number of tokens than the client was told", example)
    if attempt.kind is Kind.INVALID and row.disposition in _ANSWERED:
        wrong.add("an answer to what is invalid", example)


def _excuse(attempt: Attempt, struck: Sequence[Struck]) -> str | None:
    """Why no gateway need ever have seen it; None when there is no such reason."""
    if attempt.status is not None:
        return None
    if attempt.kind is Kind.LEAVES_IN_HEAD:
        return "left before its head was whole"
    stayed_ns = attempt.ended_at_unix_ns - attempt.began_at_unix_ns
    is_brief = stayed_ns < _UNREAD_SECONDS * _SECOND_NS
    if attempt.end is End.LEFT and attempt.leaves_by_reset and is_brief:
        return "took back by a reset what was not read yet"
    for blow in struck:
        since_ns = attempt.ended_at_unix_ns - blow.at_unix_ns
        if -_SECOND_NS < since_ns < _END_SECONDS[blow.signal_name] * _SECOND_NS:
            return "was cut off unread when the gateway ended"
    return None


def _check_sequences(
    rows: Iterable[RequestRow], tallies: Mapping[str, Tally], wrong: Findings
) -> None:
    """Each gateway numbers its requests from 0: a number without a record went missing, be it
    between others or after the last of them."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        numbers[row.gateway_id].add(row.gateway_sequence)
    for gateway_id in sorted(numbers.keys() | tallies.keys()):
        seen = numbers[gateway_id]
        num_told = tallies[gateway_id].num_arrived if gateway_id in tallies else 0
        for number in sorted(set(range(max(num_told, max(seen, default=-1) + 1))) - seen):
            wrong.add("gaps in the numbers of a gateway's records", f"{gateway_id} {number}")


def _check_losses(losses: Mapping[str, int], tallies: Mapping[str, Tally], wrong: Findings) -> None:
    """Nothing here fills a spool: no record may be lost, and what is lost is told alike."""
    for gateway_id, num_lost in losses.items():
        if num_lost:
            wrong.add("gateways that lost records", f"{gateway_id} {num_lost}")
    for gateway_id, tally in tallies.items():
        stored = losses.get(gateway_id, 0)
        if tally.num_lost is not None and tally.num_lost != stored:
            example = f"{gateway_id} lost {tally.num_lost}, on record {stored}"
            wrong.add("another number of lost records than the gateway told", example)


def _check_minutes(
    rows: Iterable[RequestRow], counts: Iterable[MinuteCountRow], wrong: Findings
) -> None:
    """The exact counts of each minute are those of its rows."""
    counted: Counter[tuple[int, str, str]] = Counter()
    for count in counts:
        counted[count.minute_unix, count.deployment, count.measure] += count.value
    expected: Counter[tuple[int, str, str]] = Counter()
    for row in rows:
        for measure, value in _measures(row):
            expected[_minute(row), row.deployment or "", measure] += value
    compared = {measure for _, _, measure in expected}
    for key in sorted(set(expected) | {key for key in counted if key[2] in compared}):
        if counted[key] != expected[key]:
            wrong.add(
                f"minute counts of {key[2]} that differ from the rows",
                f"minute {key[0]}, deployment {key[1]!r}: counted {counted[key]}, in the rows "
                f"{expected[key]}",
            )


def _measures(row: RequestRow) -> Iterator[tuple[str, int]]:
    yield "offered", 1
    yield f"disposition.{row.disposition}", 1
    if row.num_output_tokens:
        yield "tokens.output", row.num_output_tokens
    if row.in_contract is not None:
        yield "in_contract.total", 1
        if row.in_contract:
            yield "in_contract.good", 1


def _minute(row: RequestRow) -> int:
    seconds = row.arrived_at_unix_ns // 10**9
    return seconds - seconds % 60
