"""Lines of a log that somebody copied into what is told: read as the log's own are."""

from collections.abc import Iterable

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.sources.log.memory import SHAPES
from controlplane.diagnosis.sources.log.shape import ShapeTable

_TABLE = ShapeTable(SHAPES)
_NO_LINE = -1


def read_told_lines(facts: Iterable[Fact]) -> tuple[LogEvent, ...]:
    """Of those that are texts and say what an allocator says; each at its fact's time."""
    return tuple(
        LogEvent(
            kind=known[1].kind,
            index=_NO_LINE,
            line=fact.raw,
            at=fact.at,
            fields=known[1].fields,
            words=known[1].words,
        )
        for fact in facts
        if fact.value is None and (known := _TABLE.match(fact.raw)) is not None
    )
