"""The events of a request as rows: what repeats for every token is folded into one row. Pure."""

from dataclasses import dataclass
from itertools import groupby

from controlplane.api.request_views import EventView
from controlplane.console.formatting import duration

_REPEATING = frozenset({"tokens", "write"})
_LABELS = {"num_tokens": "tokens", "num_cached_tokens": "reused", "replica_id": "replica"}
_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One row: an event, or a run of tokens and writes."""

    at_seconds: float
    until_seconds: float | None
    error_seconds: float
    what: str
    attempt: int
    observability: str
    details: str


def fold_events(events: list[EventView]) -> list[EventRow]:
    """Rows in order; a short run of tokens and writes stays as it is."""
    rows: list[EventRow] = []
    for repeats, run in groupby(events, key=lambda event: event.kind in _REPEATING):
        members = list(run)
        if repeats and len(members) > _FEW:
            rows.append(_folded(members))
        else:
            rows += [_row(event) for event in members]
    return rows


def _row(event: EventView) -> EventRow:
    return EventRow(
        at_seconds=event.at_seconds,
        until_seconds=None,
        error_seconds=event.error_seconds,
        what=event.kind.replace("_", " "),
        attempt=event.attempt,
        observability=event.observability,
        details=", ".join(_details(event)),
    )


def _folded(run: list[EventView]) -> EventRow:
    steps = [event for event in run if event.kind == "tokens"]
    writes = [event for event in run if event.kind == "write"]
    num_tokens = sum(event.details.get("num_tokens", 0) for event in steps)
    waited = sum(event.details.get("waited_seconds", 0.0) for event in writes)
    details = f"{len(steps)} steps selected {num_tokens} tokens, {len(writes)} writes"
    if waited:
        details += f", waited {duration(waited)} for the client"
    weakest = next((e.observability for e in steps if e.observability != "observed"), "observed")
    return EventRow(
        at_seconds=run[0].at_seconds,
        until_seconds=run[-1].at_seconds,
        error_seconds=max(event.error_seconds for event in run),
        what="tokens and writes",
        attempt=run[0].attempt,
        observability=weakest,
        details=details,
    )


def _details(event: EventView) -> list[str]:
    parts = []
    for name, value in event.details.items():
        if name == "waited_seconds":
            if value:
                parts.append(f"waited {duration(value)} for the client")
        elif name in ("num_tokens", "num_cached_tokens"):
            if value:
                parts.append(f"{value:,} {_LABELS[name]}")
        elif name == "replica_id":
            parts.append(f"replica {value}")
        else:
            parts.append(str(value))
    return parts
