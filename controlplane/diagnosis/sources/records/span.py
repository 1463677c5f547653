"""From when to when records tell everything that was under way.

A record is written when its request has ended, and records are chosen by when their requests
arrived. So those that were still under way at the end are in no file, nor are those that were at
its beginning: whatever counts requests in flight would rise from nothing, and fall to it as if the
traffic ceased. Courses begin later and end earlier, by as long as nearly all requests took; where
nobody arrived before, they begin with the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.diagnosis.sources.records.ended_request import EndedRequest

_NEARLY_ALL = 0.99
"""Of the requests: one that takes ten times as long as the others takes no course away."""
_LEAST_SECONDS = 10.0
"""Of a course. In less a queue that stays looks like one that passes."""
_MOST_MOMENTS = 240
_LEAST_STEP_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Unix times."""

    start: float
    """The first arrival."""
    known_from: float
    """Of what arrived before `start`, nearly all had ended by then."""
    known_until: float
    """Of what arrived until then, nearly all has ended by `end`."""
    end: float
    """The last end of a request."""
    longest_seconds: float
    """That nearly all requests took at most."""

    @property
    def has_course(self) -> bool:
        """Long enough to tell one."""
        return self.known_until - self.known_from >= _LEAST_SECONDS

    def moments(self) -> list[float]:
        """For the readings of a course, a second apart or so many that they are bounded."""
        seconds = self.known_until - self.known_from
        number = max(1, min(_MOST_MOMENTS, int(seconds / _LEAST_STEP_SECONDS)))
        return [self.known_from + seconds * step / number for step in range(number + 1)]


def span_of(requests: Sequence[EndedRequest], *, is_from_first: bool) -> Span:
    """Of at least one request, in order of arrival. `is_from_first`: nobody arrived before."""
    lasted = sorted(each.lasted for each in requests if each.lasted is not None)
    end = max(each.arrived_at + (each.lasted or 0.0) for each in requests)
    longest = lasted[min(len(lasted) - 1, int(_NEARLY_ALL * len(lasted)))] if lasted else 0.0
    start = requests[0].arrived_at
    known_from = start if is_from_first else min(end, start + longest)
    return Span(
        start=start,
        known_from=known_from,
        known_until=max(known_from, end - longest),
        end=end,
        longest_seconds=longest,
    )
