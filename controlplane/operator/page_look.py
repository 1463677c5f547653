"""What the always-on look saw of the metrics page of a server that is only observed.

No request passes through Pilothouse there, so its page is all that shows whether it lives.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from dataplane.engine_metrics.bucket_edges import EdgesByName

UNANSWERED = "it does not answer"
ANSWERED_AGAIN = "its metrics page is answered again"
_MIN_SILENT = 2
_LEAST_SECONDS = 10.0
"""One call may meet a long pause."""


class Silence(StrEnum):
    """How a server is silent that answers nothing at all."""

    TAKEN = "taken"
    """Its port takes connections, and nothing comes."""
    REFUSED = "refused"
    """Its host is there, and nothing listens."""
    LOST = "lost"
    """No connection, and no word why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLook:
    """Of one replica, when it was last asked. An answer of any kind is no silence."""

    at_unix_ns: int
    page: str | None
    """The URL, without a password; None: none was found yet."""
    page_at_unix_ns: int | None
    """When it last showed its metrics; None: never."""
    num_running: int | None
    """By that page, as those below. None: it does not say."""
    num_waiting: int | None
    max_num_seqs: int | None
    silence: Silence | None
    """None: the last call was answered, with metrics or otherwise."""
    silent_since_unix_ns: int | None
    """The first call of those in a row that nothing answered."""
    num_silent: int
    why: str
    """What came of the last call in place of an answer; empty where one came."""
    latency_edges: EdgesByName = field(default_factory=dict)
    """Of the histograms of latencies on the newest page; empty also of an engine that shows them
    from its first request on only."""

    @property
    def is_answered(self) -> bool:
        """By whatever."""
        return self.silence is None

    def why_unreachable(self) -> str | None:
        """None while it answers, or while the silence may be a moment's."""
        if self.silent_since_unix_ns is None or self.num_silent < _MIN_SILENT:
            return None
        if (self.at_unix_ns - self.silent_since_unix_ns) / 1e9 < _LEAST_SECONDS:
            return None
        return f"{UNANSWERED}: {self._how()}"

    def _how(self) -> str:
        match self.silence:
            case Silence.TAKEN:
                return f"its port takes connections, and its metrics page gave {self.why}"
            case Silence.REFUSED:
                return "its port refuses connections: its process is gone, or listens elsewhere"
            case _:
                return self.why
