"""A server that somebody else runs was started anew."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """By its metrics pages: seen only if its counters began again."""

    after_unix_ns: int
    """Of the last page of the process before."""
    seen_at_unix_ns: int
    """Of the first page of the new one."""

    @property
    def reason(self) -> str:
        """For the history."""
        after, before = _clock(self.after_unix_ns), _clock(self.seen_at_unix_ns)
        return f"its counters restarted: it was started anew between {after} and {before}"


def _clock(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%H:%M:%SZ")
