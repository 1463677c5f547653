"""A shared link: what goes over it waits for what was put on it before.

KV of a prompt that was computed elsewhere, weights, checkpoints. What is offered above the
bandwidth does not get lost, it piles up: the backlog grows by the difference every second.
Transfers go one after the other, in the order in which they were put, so that one costs the
same however many wait. The time until the last of several arrives is the same as if they
shared the link.
"""

from collections import deque

from dataplane.simulation.timeline import Action, Timeline

BITS_PER_BYTE = 8
GIGA = 10**9
"""Of a link and of GB: powers of ten, both."""


class Transfer:
    """One that was put on a link."""

    __slots__ = ("num_bits", "on_arrival")

    def __init__(self, num_bits: float, on_arrival: Action) -> None:
        self.num_bits = num_bits
        self.on_arrival = on_arrival


class Link:
    """`bits_per_second` of bandwidth, on a timeline in seconds. 0 is a link that stands still.

    Raises ValueError for a negative bandwidth or size.
    """

    def __init__(self, timeline: Timeline, bits_per_second: float) -> None:
        self._timeline = timeline
        self._bits_per_second = _checked(bits_per_second)
        self._waiting: deque[Transfer] = deque()  # first: going
        self._num_bits_waiting: float = 0  # behind the one that goes
        self._num_bits_left: float = 0  # of the one that goes, at `_since`
        self._since: float = 0
        self._run = 0  # an arrival that was planned in an earlier one does not happen

    @property
    def bits_per_second(self) -> float:
        """What the link carries now."""
        return self._bits_per_second

    @property
    def num_transfers(self) -> int:
        """Put and not arrived."""
        return len(self._waiting)

    @property
    def backlog_bits(self) -> float:
        """Put and not carried yet."""
        return self._num_bits_waiting + self._left_now()

    def send(self, num_bytes: float, on_arrival: Action) -> Transfer:
        """Put `num_bytes` on the link; `on_arrival()` happens when all of them are there."""
        if num_bytes < 0:
            raise ValueError(f"{num_bytes} bytes cannot be sent; at least 0")
        num_bits = num_bytes * BITS_PER_BYTE
        transfer = Transfer(num_bits, on_arrival)
        self._waiting.append(transfer)
        if len(self._waiting) == 1:
            self._begin(num_bits)
        else:
            self._num_bits_waiting += num_bits
        return transfer

    def withdraw(self, transfer: Transfer) -> bool:
        """Take back a transfer that has not begun; False, and it goes on, when it has."""
        if transfer not in self._waiting or transfer is self._waiting[0]:
            return False
        self._waiting.remove(transfer)
        self._num_bits_waiting -= transfer.num_bits
        return True

    def set_bandwidth(self, bits_per_second: float) -> None:
        """From now on, for what is on its way too."""
        self._num_bits_left = self._left_now()
        self._since = self._timeline.now
        self._bits_per_second = _checked(bits_per_second)
        if self._waiting:
            self._plan_arrival()

    def sustainable_per_second(self, num_bytes: float) -> float:
        """How many transfers of `num_bytes` the link carries a second, for as long as you like."""
        return self._bits_per_second / (num_bytes * BITS_PER_BYTE)

    def surplus_bits_per_second(self, num_bytes: float, num_per_second: float) -> float:
        """By how much so many transfers exceed the link: the backlog grows so fast. <= 0: it
        carries them."""
        return offered_bits_per_second(num_bytes, num_per_second) - self._bits_per_second

    def _left_now(self) -> float:
        carried = (self._timeline.now - self._since) * self._bits_per_second
        return max(0, self._num_bits_left - carried) if self._waiting else 0

    def _begin(self, num_bits: float) -> None:
        self._num_bits_left = num_bits
        self._since = self._timeline.now
        self._plan_arrival()

    def _plan_arrival(self) -> None:
        self._run += 1
        if self._bits_per_second:
            run = self._run
            delay = self._num_bits_left / self._bits_per_second
            self._timeline.after(delay, lambda: self._arrive(run))

    def _arrive(self, run: int) -> None:
        if run != self._run:
            return  # The bandwidth changed meanwhile, and another arrival was planned.
        arrived = self._waiting.popleft()
        if self._waiting:
            num_bits = self._waiting[0].num_bits
            self._num_bits_waiting -= num_bits
            self._begin(num_bits)
        arrived.on_arrival()


def offered_bits_per_second(num_bytes: float, num_per_second: float) -> float:
    """What so many transfers of `num_bytes` a second put on a link."""
    return num_bytes * BITS_PER_BYTE * num_per_second


def _checked(bits_per_second: float) -> float:
    if bits_per_second < 0:
        raise ValueError(f"a link of {bits_per_second} bits a second; at least 0")
    return bits_per_second
