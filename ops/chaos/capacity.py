"""How many replicas of the arm that serves a gateway could send requests to, all the time."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ops.chaos.place import Place

_LOOK_SECONDS = 0.1
_FELT_NS = 10**9


@dataclass(slots=True)
class CapacityWatch:
    """Looks in a thread of its own, at the gateway alone: it is there while all else is killed."""

    place: Place
    seen: list[tuple[int, int]] = field(default_factory=list)
    """(unix time in nanoseconds, replicas)."""
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="capacity", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            connected = self.place.num_connected()
            if connected is not None:
                self.seen.append((time.time_ns(), connected))


def least_unexcused(
    seen: Sequence[tuple[int, int]], killed_at: Sequence[int], whole: int
) -> int | None:
    """The fewest replicas that there were, but for those that were killed: from a kill on one less
    is no fault, until all are there again. None: nobody looked."""
    least: int | None = None
    num_excused, last_kill = 0, -_FELT_NS
    kills = sorted(killed_at)
    for at, connected in seen:
        while kills and kills[0] <= at:
            num_excused, last_kill = num_excused + 1, kills.pop(0)
        # Right after a kill nobody may have noticed it yet.
        if connected >= whole and at - last_kill >= _FELT_NS:
            num_excused = 0
        counted = min(whole, connected + num_excused)
        least = counted if least is None else min(least, counted)
    return least
