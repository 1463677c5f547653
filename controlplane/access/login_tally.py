"""Logins that failed, told in few lines: anybody may cause them, and the audit is never shortened.

The first of a kind is told at once, so that whoever looks sees it begin. What follows of the same
kind within a window is counted, and the count is told when the window ends. So many kinds are told
apart; beyond them, as when many addresses guess together, those that mean one user are one. So
there is a bound on what a window can leave behind, whatever is tried: a few lines for each user who
exists. And no attempt goes uncounted.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

WINDOW_NS = 300 * 10**9
"""As long as the one in which guessing is slowed down."""
_MAX_KINDS = 20


class Failure(StrEnum):
    """Why nobody was logged in, in words for the audit."""

    WRONG_PASSWORD = "wrong password"
    DISABLED = "the user is disabled"
    UNKNOWN = "no such user"
    THROTTLED = "too many attempts, not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Attempts of one kind within one window."""

    why: Failure
    user: str | None
    """None: nobody has the name that was given; it is kept nowhere."""
    address: str | None
    """None: several."""
    first_at_unix_ns: int
    last_at_unix_ns: int
    number: int = 1


Kind = tuple[Failure, str | None, str | None]


class LoginTally:
    """Pure; whoever has it calls it from one thread at a time."""

    def __init__(self, window_ns: int = WINDOW_NS, max_kinds: int = _MAX_KINDS) -> None:
        self._window_ns = window_ns
        self._max_kinds = max_kinds
        self._open: dict[Kind, Failures] = {}

    @property
    def is_empty(self) -> bool:
        """Nothing is being counted."""
        return not self._open

    def add(self, why: Failure, user: str | None, address: str, now_unix_ns: int) -> list[Failures]:
        """Count one attempt. Returns what is to be told now: windows that have ended, and this
        attempt where it is the first of its kind."""
        told = self.take_ended(now_unix_ns)
        kind: Kind = (why, user, address)
        if kind not in self._open and len(self._open) >= self._max_kinds:
            kind = (why, user, None)
        known = self._open.get(kind)
        if known is None:
            known = Failures(
                why=why,
                user=kind[1],
                address=kind[2],
                first_at_unix_ns=now_unix_ns,
                last_at_unix_ns=now_unix_ns,
            )
            told.append(known)
        else:
            known = replace(known, number=known.number + 1, last_at_unix_ns=now_unix_ns)
        self._open[kind] = known
        return told

    def take_ended(self, now_unix_ns: int) -> list[Failures]:
        """Windows that have ended, and have more to tell than their first attempt."""
        return self._take(
            [
                kind
                for kind, known in self._open.items()
                if now_unix_ns - known.first_at_unix_ns >= self._window_ns
            ]
        )

    def take_all(self) -> list[Failures]:
        """The same, of all windows: nothing is counted any more."""
        return self._take(list(self._open))

    def _take(self, kinds: list[Kind]) -> list[Failures]:
        ended = [self._open.pop(kind) for kind in kinds]
        return [each for each in ended if each.number > 1]
