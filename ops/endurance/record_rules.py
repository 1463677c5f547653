"""What the record of a request tells must fit together."""

from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.record import RequestRecord


def check_record(record: RequestRecord) -> None:
    """What was written, and when, fits how the record says it was delivered. Raises
    AssertionError."""
    writes = [e for e in record.events if e.kind in (EventKind.FIRST_WRITE, EventKind.WRITE)]
    [last] = [e for e in record.events if e.kind is EventKind.LAST_WRITE]
    assert all(write.at <= last.at for write in writes)
    num_written = sum(write.num_tokens or 0 for write in writes)
    assert num_written <= (record.num_output_tokens or 0)
    if record.delivery is Delivery.COMPLETE:
        assert num_written == record.num_output_tokens
        assert record.disposition in (Disposition.STOP, Disposition.LENGTH)
    assert (record.delivery is Delivery.NONE) == (not writes)
    times = [e.at for e in record.events if e.kind not in (EventKind.WRITE,)]
    assert times == sorted(times), "nothing is told out of order"
