"""The geometry of the Life waterfall: seconds to coordinates. Pure; templates only draw.

Bars lie between LEFT and RIGHT; behind RIGHT there is room for the label of a bar that
reaches the end, so that no label ever lies on a bar.
"""

from dataclasses import dataclass, field

from controlplane.api.life import Life, Phase
from controlplane.console.formatting import duration

WIDTH, LEFT, RIGHT = 1080.0, 92.0, 740.0
ROW_HEIGHT, BAR_HEIGHT, TOP = 32.0, 17.0, 14.0
_MAX_TOKEN_MARKS = 90
_MIN_BAR = 2.0
_LABELS = {"first_content_transit": "transit"}
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a bar, such as the time a request was preempted."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A mark across a bar."""

    x: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One row."""

    name: str
    label: str
    x: float
    y: float
    width: float
    is_inferred: bool
    is_open: bool
    seconds_text: str
    note: str
    start_text: str
    start_percent: float
    width_percent: float
    strokes: list[Stroke] = field(default_factory=list)
    gaps: list[Stretch] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What stands behind the bar."""
        words = self.seconds_text + (" inferred" if self.is_inferred else "")
        return f"{words}, {self.note}" if self.note else words


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The whole drawing."""

    height: float
    axis_y: float
    ticks: list[Tick]
    bars: list[Bar]
    description: str


def draw(life: Life) -> Waterfall:
    """Lay `life` out."""
    total = life.total_seconds or 0.001
    bars = [_bar(phase, row, total) for row, phase in enumerate(life.phases)]
    axis_y = TOP + ROW_HEIGHT * len(bars) + 2
    return Waterfall(
        height=axis_y + 22,
        axis_y=axis_y,
        ticks=[
            Tick(round(_x(at, total), 1), str(duration(at)) if at else "0") for at in _ticks(total)
        ],
        bars=bars,
        description=", ".join(f"{bar.label} from {bar.start_text} for {bar.text}" for bar in bars),
    )


def _bar(phase: Phase, row: int, total: float) -> Bar:
    end = total if phase.end_seconds is None else phase.end_seconds
    x, right = _x(phase.start_seconds, total), _x(end, total)
    seconds = None if phase.end_seconds is None else phase.end_seconds - phase.start_seconds
    return Bar(
        name=phase.name,
        label=_LABELS.get(phase.name, phase.name),
        x=round(x, 1),
        y=TOP + ROW_HEIGHT * row,
        width=round(max(right - x, _MIN_BAR), 1),
        is_inferred=phase.observability == "inferred",
        is_open=phase.end_seconds is None,
        seconds_text="end unknown" if seconds is None else str(duration(seconds)),
        note=phase.note,
        start_text=str(duration(phase.start_seconds)),
        start_percent=round(100 * phase.start_seconds / total, 2),
        width_percent=round(max(100 * (end - phase.start_seconds) / total, 0.6), 2),
        strokes=_strokes(phase, total),
        gaps=_gaps(phase, end, total),
    )


def _strokes(phase: Phase, total: float) -> list[Stroke]:
    """Chunk borders always; single tokens only while they can be told apart."""
    marks = phase.marks
    num_tokens = sum(mark.kind == "tokens" for mark in marks)
    if num_tokens > _MAX_TOKEN_MARKS:
        marks = [mark for mark in marks if mark.kind != "tokens"]
    end = phase.end_seconds
    return [
        Stroke(round(_x(mark.at_seconds, total), 1), mark.kind, mark.text)
        for mark in marks
        if mark.kind in ("tokens", "prefill_chunk", "retried", "first_content")
        and mark.at_seconds > phase.start_seconds
        and (end is None or mark.at_seconds < end)
    ]


def _gaps(phase: Phase, end: float, total: float) -> list[Stretch]:
    gaps, since, reason = [], None, ""
    for mark in [*phase.marks]:
        if mark.kind in ("preempted", "paused"):
            since, reason = mark.at_seconds, f"{mark.kind}: {mark.text}"
        elif since is not None and mark.kind in ("resumed", "tokens"):
            gaps.append(_stretch(since, mark.at_seconds, reason, total))
            since = None
    if since is not None:
        gaps.append(_stretch(since, end, reason, total))
    return gaps


def _stretch(start: float, end: float, title: str, total: float) -> Stretch:
    x = _x(start, total)
    return Stretch(round(x, 1), round(max(_x(end, total) - x, 1.0), 1), title)


def _x(seconds: float, total: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(max(seconds, 0.0), total) / total


def _ticks(total: float) -> list[float]:
    """Four to eight round moments from 0 on."""
    magnitude = 1e-6
    while True:
        for step in _STEPS:
            if total / (step * magnitude) <= 7:
                width = step * magnitude
                return [round(n * width, 9) for n in range(int(total / width + 1e-9) + 1)]
        magnitude *= 10
