"""When the lines of a log were written: on which clock, from when until when, in what order."""

from collections.abc import Iterable, Iterator

from controlplane.diagnosis.sources.log.stamp import Clock, Stamp
from controlplane.diagnosis.sources.log.timeline import Timeline

_CLOCK_STEP_SECONDS = 60.0
"""Ranks and threads write some seconds out of order."""


class LineTimes:
    """Of one log, line by line."""

    def __init__(self, year: int | None) -> None:
        """`year`: of the first line, where it is known from elsewhere."""
        self.now = 0.0
        """Of the newest line that has a time."""
        self.spans: dict[Clock, list[float]] = {}
        """By clock: the first, the earliest and the latest time. For reading alone."""
        self._year = year
        self._timeline = Timeline(year)
        self._steps_back: list[float] = []
        self._marked: tuple[Stamp | None, Clock | None, float | None] = (None, None, None)

    @property
    def knows_year(self) -> bool:
        """They are Unix seconds."""
        return self._timeline.knows_year

    @property
    def to_unix(self) -> float:
        """To be added to them, where `knows_year`, for Unix seconds."""
        return self._timeline.to_unix

    @property
    def axis(self) -> Clock:
        """The clock that counts: the calendar, where any line has it."""
        if Clock.DATED in self.spans or not self.spans:
            return Clock.DATED
        return next(iter(self.spans))

    @property
    def span(self) -> tuple[float, float, float]:
        """The first, the earliest and the latest time on `axis`; zeros where no line has one."""
        first, earliest, latest = self.spans.get(self.axis, (0.0, 0.0, 0.0))
        return first, earliest, latest

    def mark(self, stamp: Stamp | None) -> tuple[Clock | None, float | None]:
        """Notes the time of a line. Returns its clock and its seconds there, where it has any."""
        if stamp is None:
            return None, None
        if stamp is self._marked[0]:  # again it would say the same
            return self._marked[1:]
        axis = self._timeline.axis(stamp)
        seconds = self._timeline.seconds(stamp)
        if seconds is None:
            return None, None
        span = self.spans.setdefault(axis, [seconds, seconds, seconds])
        if axis is Clock.DATED and seconds < self.now - _CLOCK_STEP_SECONDS:
            self._steps_back.append(self.now - seconds)
        span[1] = min(span[1], seconds)
        span[2] = max(span[2], seconds)
        if axis is Clock.DATED or Clock.DATED not in self.spans:
            self.now = seconds
        self._marked = (stamp, axis, seconds)
        return axis, seconds

    def again(self, stamps: Iterable[Stamp | None], shift: float) -> Iterator[float | None]:
        """Of lines that have these, in their order, on `axis` and less `shift`; None for those that
        have no time there."""
        timeline, axis = Timeline(self._year), self.axis
        for stamp in stamps:
            is_on_axis = stamp is not None and timeline.axis(stamp) is axis
            seconds = timeline.seconds(stamp) if stamp is not None and is_on_axis else None
            yield None if seconds is None else seconds - shift

    def told_steps_back(self) -> Iterator[str]:
        """A sentence, where the clock goes back."""
        if self._steps_back:
            yield (
                f"its clock goes back {len(self._steps_back)} times, by up to "
                f"{max(self._steps_back):.0f} s: logs were put together out of order, or a clock "
                "was set; what was written at one time and what at the other cannot be told apart"
            )
