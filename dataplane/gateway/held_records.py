"""Records that the disk did not take: kept in memory, few of them, until somebody does.

A disk that is full is often the control plane's as well, so that neither takes a record for a
while. What is here dies with the process; so it goes to the disk as soon as that takes it.
"""

from collections import deque
from collections.abc import Iterator

MAX_HELD_BYTES = 16 * 2**20
"""Some ten thousand records."""


class HeldSegment:
    """Of one gateway id; read and marked as a `Segment` is. Sizes are in bytes."""

    def __init__(self, gateway_id: str) -> None:
        self.gateway_id = gateway_id
        self.num_bytes = 0
        self._lines: deque[bytes] = deque()  # oldest first
        self._num_in_flight = 0  # of the oldest, which a batch carries just now

    @property
    def num_records(self) -> int:
        """That are not yet sent."""
        return len(self._lines)

    def append(self, line: bytes) -> None:
        """Add one record."""
        self._lines.append(line)
        self.num_bytes += len(line)

    def read_unsent(self, max_records: int, max_bytes: int) -> list[bytes]:
        """The next records, at least one if there is one. They stay until `mark_sent`."""
        lines: list[bytes] = []
        size = 0
        for line in self._lines:
            if len(lines) >= max_records or size >= max_bytes:
                break
            lines.append(line)
            size += len(line)
        self._num_in_flight = len(lines)
        return lines

    def mark_sent(self, lines: list[bytes]) -> None:
        """These, the next ones, need not be sent again."""
        for line in lines:
            self._lines.popleft()
            self.num_bytes -= len(line)
        self._num_in_flight = max(0, self._num_in_flight - len(lines))

    def drop_oldest(self, is_in_flight: bool) -> bool:
        """Give up the oldest that no batch carries just now; False when there is none."""
        place = self._num_in_flight if is_in_flight else 0
        if place >= len(self._lines):
            return False
        self.num_bytes -= len(self._lines[place])
        del self._lines[place]
        return True


class HeldRecords:
    """Of all gateway ids, within one bound."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._segments: dict[str, HeldSegment] = {}

    def __iter__(self) -> Iterator[HeldSegment]:
        return iter(tuple(self._segments.values()))

    @property
    def num_records(self) -> int:
        """In memory alone."""
        return sum(held.num_records for held in self._segments.values())

    def find(self, gateway_id: str) -> HeldSegment | None:
        """What is held of it."""
        return self._segments.get(gateway_id)

    def hold(self, gateway_id: str, line: bytes, in_flight: object) -> Iterator[str]:
        """Keep one more. Yields the gateway id of each record that had to go for it, the oldest
        first; `in_flight` is the segment that a batch carries just now."""
        self._segments.setdefault(gateway_id, HeldSegment(gateway_id)).append(line)
        while sum(held.num_bytes for held in self) > self._max_bytes:
            went = next((h for h in self if h.drop_oldest(is_in_flight=h is in_flight)), None)
            if went is None:
                return
            yield went.gateway_id

    def remove(self, held: HeldSegment) -> None:
        """All of it was sent or written."""
        del self._segments[held.gateway_id]
