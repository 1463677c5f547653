"""What one sequence had in each step: rows, read from the events of its request's record.

A row ends when its chunk was computed or its token selected, and knows since when its sequence
waited for it. Where the record shows less than single steps (joined events, an attempt that was
lost, an engine that shows no chunks), the time is *blind*: nobody knows what ran in it.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from dataplane.lifecycle import Event, EventKind
from dataplane.record import RequestRecord

_BEGINS = frozenset({EventKind.SCHEDULED, EventKind.RESUMED})
_SELECTS = frozenset({EventKind.FIRST_TOKEN, EventKind.TOKENS})
_OF_SEQUENCES = _BEGINS | _SELECTS | {EventKind.PREFILL_CHUNK, EventKind.PREEMPTED}


@dataclass(slots=True, eq=False)
class Anchor:
    """Where the times of one attempt are tied to the gateway's clock."""

    request_id: str
    arrived_at: float
    max_error: float
    """They may really be so much later."""
    shift: float = 0.0
    """By how much later they are taken to be."""


@dataclass(slots=True, eq=False)
class Row:
    """One sequence in one step. Times are in seconds, as anchored."""

    anchor: Anchor
    stream: int
    """Which sequence: no two rows of one step have the same."""
    ended: float
    since: float
    """The sequence waited from here: it was in a step before, or it is scheduled now."""
    is_scheduled: bool
    """`since` is when this very step began."""
    num_tokens: int
    is_prefill: bool
    start: int = 0
    """Tokens before them."""

    @property
    def ended_at(self) -> float:
        """Aligned."""
        return self.ended + self.anchor.shift

    @property
    def since_at(self) -> float:
        """Aligned."""
        return self.since + self.anchor.shift


@dataclass(frozen=True, slots=True)
class Blind:
    """From `start` to `end` nobody knows all that ran."""

    start: float
    end: float
    why: str


@dataclass(slots=True)
class ReplicaRows:
    """All that is known of one replica's steps."""

    rows: list[Row] = field(default_factory=list)
    blind: list[Blind] = field(default_factory=list)


def read_rows(records: Iterable[RequestRecord], base_unix_ns: int) -> dict[str, ReplicaRows]:
    """Rows by replica. Times count from `base_unix_ns`."""
    by_replica: dict[str, ReplicaRows] = defaultdict(ReplicaRows)
    num_streams = 0
    for record in records:
        offset = (record.arrived_at_unix_ns - base_unix_ns) / 1e9
        for attempt, replica_id in enumerate(record.replica_ids):
            events = [e for e in record.events if e.attempt == attempt]
            reader = _AttemptReader(record, offset, events, num_streams)
            reader.read()
            num_streams += reader.num_streams
            by_replica[replica_id].rows += reader.rows
            by_replica[replica_id].blind += reader.blind
    return dict(by_replica)


class _AttemptReader:
    """Reads the events of one attempt."""

    def __init__(
        self, record: RequestRecord, offset: float, events: list[Event], first_stream: int
    ) -> None:
        self.rows: list[Row] = []
        self.blind: list[Blind] = []
        self.num_streams = 0
        self._record = record
        self._offset = offset
        self._events = events
        self._first_stream = first_stream
        max_error = max((event.at_error for event in events), default=0.0)
        self._anchor = Anchor(record.request_id, offset, max_error)

    def read(self) -> None:
        """Fill `rows` and `blind`."""
        by_sequence: dict[int, list[Event]] = defaultdict(list)
        for event in self._events:
            if event.kind in _OF_SEQUENCES:
                by_sequence[event.sequence].append(event)
        self.num_streams = max(by_sequence, default=-1) + 1
        born = self._first_token_at(by_sequence.get(0, []))
        for sequence, events in sorted(by_sequence.items()):
            self._read_sequence(sequence, events, None if sequence == 0 else born)

    def _first_token_at(self, events: list[Event]) -> float | None:
        """Further sequences of a request start behind the first token of the first."""
        first = next((e.at for e in events if e.kind is EventKind.FIRST_TOKEN), None)
        return None if first is None else self._offset + first

    def _read_sequence(self, sequence: int, events: list[Event], born: float | None) -> None:
        num_tokens = self._record.num_prompt_tokens
        since, is_scheduled = born, False
        chunks: list[Row] = []
        for event in events:
            at = self._offset + event.at
            if event.kind in _BEGINS:
                since, is_scheduled = at, True
                continue
            if event.kind is EventKind.PREEMPTED:
                chunks.clear()
                continue
            if since is None or num_tokens is None:
                self.blind.append(Blind(self._offset, at, "an event without its beginning"))
            elif event.kind is EventKind.PREFILL_CHUNK:
                chunks.append(
                    self._row(sequence, at, since, is_scheduled, event.num_tokens or 0, True)
                )
            else:
                self._read_selection(sequence, event, at, since, chunks, num_tokens)
                chunks = []
                num_tokens += event.num_tokens or 1
            since, is_scheduled = at, False
        self._place(chunks, sum(chunk.num_tokens for chunk in chunks))

    def _read_selection(
        self,
        sequence: int,
        event: Event,
        at: float,
        since: float,
        chunks: list[Row],
        num_tokens: int,
    ) -> None:
        if (event.num_tokens or 1) > 1:
            self.blind.append(Blind(since, at, "several tokens in one event"))
        elif chunks:
            self._place(chunks, num_tokens)
        elif event.kind is EventKind.FIRST_TOKEN:
            self.blind.append(Blind(since, at, "a first token without the chunks of its prompt"))
        else:
            row = self._row(sequence, at, since, False, 1, False)
            row.start = num_tokens - 1
            self.rows.append(row)

    def _row(
        self,
        sequence: int,
        at: float,
        since: float,
        is_scheduled: bool,
        num_tokens: int,
        is_prefill: bool,
    ) -> Row:
        stream = self._first_stream + sequence
        return Row(self._anchor, stream, at, since, is_scheduled, num_tokens, is_prefill)

    def _place(self, chunks: list[Row], end: int) -> None:
        """Chunks of one prefill end where the sequence had caught up: `end` tokens."""
        for chunk in reversed(chunks):
            end -= chunk.num_tokens
            chunk.start = max(0, end)
        self.rows += chunks
