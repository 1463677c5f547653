"""Whether the process behind a metrics page was started anew, for the history of its replica.

A process that is killed and started within seconds misses no call, or one; its counters are all
that tells of it (`turnover`).
"""

from controlplane.diagnosis.turnover import Counted, TurnoverWatch
from controlplane.operator.restart import Restart

_HELD_PAGES = 6
"""Nobody is woken by this line: it may come half a minute later, and is right."""


class RestartWatch:
    """One endpoint's. `take` its pages in time order."""

    def __init__(self) -> None:
        self._turnovers = TurnoverWatch(_HELD_PAGES)

    def take(self, page: Counted) -> None:
        """One more."""
        self._turnovers.take(page)

    @property
    def last(self) -> Restart | None:
        """The newest that was seen for sure."""
        last = self._turnovers.last
        if last is None:
            return None
        return Restart(
            after_unix_ns=round(last.before.at * 1e9), seen_at_unix_ns=round(last.first.at * 1e9)
        )
