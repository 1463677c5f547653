"""The geometry of replicas as lanes: states over time to coordinates. Pure; templates only draw."""

from dataclasses import dataclass

from controlplane.api.deployment_views import DeploymentDetail, LaneView
from controlplane.console.formatting import clock_time, duration, instant
from controlplane.store.replica_lanes import StateSpan
from controlplane.store.replicas import ENDED

WIDTH, LEFT, RIGHT = 1080.0, 150.0, 1060.0
ROW_HEIGHT, BAR_HEIGHT, TOP = 26.0, 13.0, 10.0
_MIN_WIDTH = 2.0
_STEPS_SECONDS = (60, 300, 600, 900, 1800, 3600, 3 * 3600, 6 * 3600, 86400)
_MAX_TICKS = 8


@dataclass(frozen=True, slots=True)
class LaneTick:
    """A moment of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class LaneSegment:
    """One state within the time shown."""

    x: float
    width: float
    state: str
    title: str
    percent: float
    """Where it starts, of the time shown."""
    width_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One replica."""

    replica_id: str
    y: float
    segments: list[LaneSegment]
    failed_x: float | None
    """Where it failed, when that is within the time shown."""
    words: str
    """The same for who cannot see it."""


@dataclass(frozen=True, slots=True)
class LaneMark:
    """A change of config, or the instant that was asked for."""

    x: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDrawing:
    """All lanes over one axis."""

    height: float
    axis_y: float
    ticks: list[LaneTick]
    rows: list[LaneRow]
    marks: list[LaneMark]


class _Axis:
    def __init__(self, start_unix_ns: int, end_unix_ns: int) -> None:
        self.start, self.end = start_unix_ns, end_unix_ns

    def share(self, unix_ns: int) -> float:
        inside = min(max(unix_ns, self.start), self.end)
        return (inside - self.start) / (self.end - self.start)

    def x(self, unix_ns: int) -> float:
        return LEFT + (RIGHT - LEFT) * self.share(unix_ns)


def draw_lanes(view: DeploymentDetail) -> LaneDrawing:
    """Lay a deployment's replicas out, oldest at the top."""
    axis = _Axis(view.start_unix_ns, view.end_unix_ns)
    lanes = list(reversed(view.lanes))
    rows = [_row(lane, number, axis, view.as_of_unix_ns) for number, lane in enumerate(lanes)]
    axis_y = TOP + ROW_HEIGHT * len(rows) + 2
    marks = [
        LaneMark(round(axis.x(change.at_unix_ns), 1), "config", f"{change.text} by {change.author}")
        for change in view.changes
        if view.start_unix_ns <= change.at_unix_ns < view.end_unix_ns
    ]
    if view.at_unix_ns is not None:
        title = f"asked for: {clock_time(view.at_unix_ns, view.as_of_unix_ns)} UTC"
        marks.append(LaneMark(round(axis.x(view.at_unix_ns), 1), "asked", title))
    return LaneDrawing(
        height=axis_y + 22, axis_y=axis_y, ticks=_ticks(axis), rows=rows, marks=marks
    )


def _row(lane: LaneView, number: int, axis: _Axis, now: int) -> LaneRow:
    shown = [
        span
        for span in lane.spans
        if span.state not in ENDED
        and span.since_unix_ns < axis.end
        and (span.until_unix_ns is None or span.until_unix_ns > axis.start)
    ]
    failed = next((span for span in lane.spans if span.state == "failed"), None)
    is_shown = failed is not None and axis.start <= failed.since_unix_ns < axis.end
    return LaneRow(
        replica_id=lane.replica_id,
        y=TOP + ROW_HEIGHT * number,
        segments=[_segment(span, axis, now) for span in shown],
        failed_x=round(axis.x(failed.since_unix_ns), 1) if failed and is_shown else None,
        words="; ".join(_words(span, now) for span in lane.spans),
    )


def _segment(span: StateSpan, axis: _Axis, now: int) -> LaneSegment:
    end = axis.end if span.until_unix_ns is None else span.until_unix_ns
    x = axis.x(span.since_unix_ns)
    share = axis.share(span.since_unix_ns)
    return LaneSegment(
        x=round(x, 1),
        width=round(max(axis.x(end) - x, _MIN_WIDTH), 1),
        state=span.state.value,
        title=_words(span, now),
        percent=round(100 * share, 2),
        width_percent=round(max(100 * (axis.share(end) - share), 0.6), 2),
    )


def _words(span: StateSpan, now: int) -> str:
    since = clock_time(span.since_unix_ns, now)
    if span.state in ENDED:
        return f"{span.state.value} at {since} UTC: {span.reason}"
    if span.until_unix_ns is None:
        return f"{span.state.value} since {since} UTC: {span.reason}"
    lasted = duration((span.until_unix_ns - span.since_unix_ns) / 1e9)
    return f"{span.state.value} from {since} UTC for {lasted}: {span.reason}"


def _ticks(axis: _Axis) -> list[LaneTick]:
    seconds = (axis.end - axis.start) / 1e9
    step = next((s for s in _STEPS_SECONDS if seconds / s <= _MAX_TICKS), _STEPS_SECONDS[-1])
    first = -(-axis.start // (step * 10**9)) * step
    pattern = "%m-%d" if step >= 86400 else "%H:%M"
    return [
        LaneTick(round(axis.x(at * 10**9), 1), instant(at * 10**9).strftime(pattern))
        for at in range(first, axis.end // 10**9 + 1, step)
    ]
