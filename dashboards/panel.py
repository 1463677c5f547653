"""Panels and rows as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from dashboards.query import Query


class Kind(Enum):
    """How a panel looks."""

    GRAPH = auto()
    FIGURE = auto()
    """One number, the last one."""
    TABLE = auto()
    """The newest value of each series, a column for each label."""
    NOTE = auto()
    """Markdown, and no query."""


class Unit(StrEnum):
    """As Grafana calls them."""

    SECONDS = "s"
    SHARE = "percentunit"
    REQUESTS_PER_SECOND = "reqps"
    PER_SECOND = "cps"
    BYTES = "bytes"
    NUMBER = "short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel of a dashboard."""

    title: str
    says: str
    """What it shows and how to read it: its description."""
    queries: Sequence[Query] = ()
    kind: Kind = Kind.GRAPH
    unit: Unit = Unit.NUMBER
    width: int = 8
    """Of 24."""
    bounds: Sequence[float] = ()
    """Constants that a line is drawn at: promises of one revision."""
    is_stacked: bool = False
    runbook: str | None = None
    """What to do when it looks bad: a page of ops/runbooks."""
    is_share_of_one: bool = False
    """Its axis ends at 100 %."""
    is_signed: bool = False
    """It may go below zero, which is where its axis begins otherwise."""
    text: str = ""
    """Of a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading, left to right and then below."""

    title: str
    panels: Sequence[Panel]
    height: int = 8
