"""The records that a gateway wrote: without a control plane they stay in its spool."""

from collections import Counter
from pathlib import Path

import msgspec

from dataplane.gateway.segment import SEGMENT_GLOB
from dataplane.record import RequestRecord


def read_records(state_dir: Path) -> list[RequestRecord]:
    """In the order in which they were written. Raises msgspec.DecodeError for one that nobody
    could read."""
    paths = sorted(state_dir.rglob(SEGMENT_GLOB), key=lambda path: int(path.stem))
    return [
        msgspec.json.decode(line, type=RequestRecord)
        for path in paths
        for line in path.read_bytes().splitlines()
    ]


def find_gaps(records: list[RequestRecord]) -> list[str]:
    """Each request of a gateway has a number, from 0 on, and one record."""
    numbers = sorted(record.gateway_sequence for record in records)
    if numbers == list(range(len(numbers))):
        return []
    missing = sorted(set(range(numbers[-1] + 1)) - set(numbers))
    twice = sorted(number for number, times in Counter(numbers).items() if times > 1)
    return [f"{len(numbers)} records: numbers {missing[:5]} are missing, {twice[:5]} come again"]
