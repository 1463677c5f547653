"""Looks at the records of a fleet: each fits together, and says what the fleet's rows say."""

from collections import Counter

from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.record import RequestRecord
from dataplane.simulation.fleet_columns import Columns

_ANSWERED = (Disposition.STOP, Disposition.LENGTH)
_TOKENS = (EventKind.FIRST_TOKEN, EventKind.TOKENS)
_PAUSES = (EventKind.PREEMPTED, EventKind.PAUSED)
_WRITES = (EventKind.FIRST_WRITE, EventKind.WRITE)
_SAME = 1e-6
"""Seconds: a record counts from an arrival, a row from the beginning."""


class RecordWatch:
    """A RecordKeeper that wants all of them."""

    def __init__(self) -> None:
        self.num_unreleased = 0
        """Whose work began, and whose end nobody confirmed: gateways count each as a leak."""
        self._records: dict[int, RequestRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def wants(self, number: int) -> bool:
        """Everybody."""
        return True

    def keep(self, number: int, record: RequestRecord) -> None:
        """Raises AssertionError where it does not fit together, or comes twice."""
        assert number not in self._records, f"request {number} ended twice"
        self._records[number] = record
        check_writes(record)
        check_tokens(record)
        kinds = Counter(event.kind for event in record.events)
        assert kinds[EventKind.RELEASED] <= 1, kinds
        self.num_unreleased += kinds[EventKind.SCHEDULED] > 0 and not kinds[EventKind.RELEASED]

    def check_rows(self, columns: Columns) -> None:
        """Raises AssertionError where a row says anything else than its record."""
        assert len(columns) == len(self._records)
        for row, number in enumerate(columns.number):
            check_row(self._records[number], columns, row)


def check_writes(record: RequestRecord) -> None:
    """What was written, and when, fits how the record says it was delivered."""
    writes = [e for e in record.events if e.kind in _WRITES]
    [last] = [e for e in record.events if e.kind is EventKind.LAST_WRITE]
    assert all(write.at <= last.at for write in writes)
    num_written = sum(write.num_tokens or 0 for write in writes)
    assert num_written <= (record.num_output_tokens or 0)
    if record.delivery is Delivery.COMPLETE:
        assert num_written == record.num_output_tokens
        assert record.disposition in _ANSWERED
    assert (record.delivery is Delivery.NONE) == (not writes)
    times = [event.at for event in record.events]
    assert times == sorted(times), "nothing is told out of order"


def check_tokens(record: RequestRecord) -> None:
    """Every token is told once; a sequence begins once, and goes on after each pause."""
    num_told = sum(event.num_tokens or 0 for event in record.events if event.kind in _TOKENS)
    assert num_told == record.num_output_tokens, f"{num_told} told, {record.num_output_tokens}"
    begun = Counter(e.sequence for e in record.events if e.kind is EventKind.FIRST_TOKEN)
    assert all(times == 1 for times in begun.values()), begun
    if record.disposition in _ANSWERED:  # by the last attempt; another may be lost while it waits
        last = max(event.attempt for event in record.events)
        kinds = Counter(event.kind for event in record.events if event.attempt == last)
        num_pauses = sum(kinds[kind] for kind in _PAUSES)
        # What was under way when it was paused may have been its last.
        assert 0 <= num_pauses - kinds[EventKind.RESUMED] <= 1, kinds


def check_row(record: RequestRecord, columns: Columns, row: int) -> None:
    """The row says what the record does."""
    judgement = record.judgement
    verdict = None if judgement is None else judgement.in_contract
    said: dict[str, object] = {
        "disposition": list(Disposition).index(record.disposition),
        "delivery": list(Delivery).index(record.delivery),
        "num_prompt_tokens": record.num_prompt_tokens,
        "num_output_tokens": record.num_output_tokens,
        "num_cached_tokens": record.num_cached_tokens or 0,
        "in_contract": -1 if verdict is None else int(verdict),
    }
    for name, value in said.items():
        told = getattr(columns, name)[row]
        assert told == value, f"{record.request_id}: {name} is {value}, and {told} in its row"
    server = record.latencies.server
    times = {
        "queue_time": record.latencies.queue_time,
        "ttft": server.ttft,
        "tpot": server.tpot,
        "e2e": server.e2e,
    }
    for name, seconds in times.items():
        told = getattr(columns, name)[row]
        is_same = told != told if seconds is None else abs(told - seconds) < _SAME
        assert is_same, f"{record.request_id}: {name} is {seconds}, and {told} in its row"
