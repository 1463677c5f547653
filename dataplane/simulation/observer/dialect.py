"""A dialect: which series an engine exports, under which names, and how it logs."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import SchedulerStats
from dataplane.simulation.observer.ended_work import EndedWork
from dataplane.simulation.observer.exposition import (
    Family,
    FamilyKind,
    Labels,
    Readings,
    histogram_family,
    plain_family,
)
from dataplane.simulation.observer.measure import Measure
from dataplane.simulation.observer.tally import EngineTally

NO_LABELS: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """What an engine was told about itself when it was started."""

    replica_id: str
    deployment: str = "simulated"
    engine: str = "simulator"
    model: str = "m"
    model_revision: str = "m@1"
    engine_config_revision: str = "m@1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Speculation so far."""

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens: int


@dataclass(slots=True, kw_only=True)
class EngineView:
    """One engine at one moment, as it knows itself. Made for a scrape or a line, then dropped."""

    identity: EngineIdentity
    config: SchedulerConfig
    stats: SchedulerStats
    tally: EngineTally
    now: float
    rates: "Rates"
    new_work: EndedWork
    """What has ended since the scrape before this one."""
    drafting: Drafting | None = None
    ended_drafting: Drafting | None = None
    """Of the answers that ended."""
    start_stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each stage of the start."""
    num_leaked: int = 0
    """Cancelled sequences whose blocks were not given back."""
    num_leaks_reported: int = 0
    """Those of them that are past the bound, and of all before."""

    @property
    def num_running(self) -> int:
        """Sequences that hold a slot."""
        return self.stats.num_running

    @property
    def num_waiting(self) -> int:
        """Sequences in the scheduler's queue, but those that it has not looked at."""
        return max(0, self.stats.num_waiting - self.tally.num_unseen)

    @property
    def active_share(self) -> float:
        """Of the blocks that somebody references; cached ones that nobody does are free."""
        return self.stats.num_referenced_blocks / self.config.num_blocks


@dataclass(slots=True)
class Rates:
    """Tokens per second, and the hit rate, between the last two times that they were taken."""

    at: float = 0.0
    num_prompt: int = 0
    num_output: int = 0
    prompt_per_s: float = 0.0
    output_per_s: float = 0.0
    num_queried: int = 0
    num_hits: int = 0
    num_idle: int = 1
    """Intervals without any token, up to now."""
    hit_rate: float = 0.0
    """Of the last interval in which a prefix was looked up."""

    def take(self, now: float, tally: EngineTally, stats: SchedulerStats) -> None:
        """Begin a new interval."""
        seconds = now - self.at
        num_queried = stats.num_prefix_query_tokens - self.num_queried
        if num_queried > 0:
            self.hit_rate = (stats.num_prefix_hit_tokens - self.num_hits) / num_queried
        self.num_queried = stats.num_prefix_query_tokens
        self.num_hits = stats.num_prefix_hit_tokens
        num_prompt, num_output = tally.num_prefilled_tokens, tally.num_output_tokens
        if seconds > 0:
            self.prompt_per_s = (num_prompt - self.num_prompt) / seconds
            self.output_per_s = (num_output - self.num_output) / seconds
            is_idle = num_prompt == self.num_prompt and num_output == self.num_output
            self.num_idle = self.num_idle + 1 if is_idle else 0
        self.at, self.num_prompt, self.num_output = now, num_prompt, num_output


Value = float | Readings | None
Read = Callable[[EngineView], Value]


@dataclass(frozen=True, slots=True)
class Series:
    """A gauge or a counter. `read` gives None where the engine does not export it now."""

    name: str
    kind: FamilyKind
    says: str
    read: Read


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """A histogram of a measure that the tally keeps."""

    name: str
    says: str
    measure: Measure
    bounds: tuple[float, ...]


class LogLanguage(Protocol):
    """How an engine writes its log. Every method gives whole lines, [] where it says nothing."""

    def stage_ended(self, stage: str, seconds: float, at: datetime) -> list[str]:
        """A stage of the start (acquire, load, compile, warm_up) took so long."""
        ...

    def started(self, view: EngineView, at: datetime) -> list[str]:
        """It came up."""
        ...

    def periodic(self, view: EngineView, at: datetime) -> list[str]:
        """What it says of itself every `every_seconds`."""
        ...

    def preempted(self, view: EngineView, at: datetime) -> list[str]:
        """A step began with preemptions."""
        ...

    def stuck(self, view: EngineView, at: datetime) -> list[str]:
        """A step has run for another `stuck_seconds`."""
        ...

    def leaked(
        self, view: EngineView, request_id: str, held_seconds: float, at: datetime
    ) -> list[str]:
        """The blocks of a cancelled request are still not free."""
        ...

    def out_of_memory(self, view: EngineView, num_wanted: int, at: datetime) -> list[str]:
        """It needed the memory of `num_wanted` blocks, had less, and ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine of one release."""

    name: str
    labels: Callable[[EngineView], Labels]
    """On every sample."""
    series: tuple[Series, ...]
    histograms: Callable[[SchedulerConfig], tuple[HistogramSeries, ...]]
    """Bounds may depend on the longest sequence."""
    log: LogLanguage
    log_every_seconds: float = 10.0
    stuck_seconds: float = 60.0
    counts_while_stuck: bool = True
    """Whether somebody else than the loop that steps works out rates, and logs them."""

    def bounds(self, config: SchedulerConfig) -> dict[Measure, tuple[float, ...]]:
        """What a tally has to keep."""
        return {series.measure: series.bounds for series in self.histograms(config)}

    def families(self, view: EngineView) -> list[Family]:
        """Everything it exports now, in its order."""
        labels = self.labels(view)
        families = []
        for series in self.series:
            value = series.read(view)
            if value is not None:
                readings = value if isinstance(value, Mapping) else {NO_LABELS: value}
                family = plain_family(series.name, series.kind, series.says, labels, readings)
                families.append(family)
        for each in self.histograms(view.config):
            histogram = view.tally.histograms[each.measure]
            families.append(histogram_family(each.name, each.says, labels, histogram))
        return families


class UnknownDialectError(ValueError):
    """A dialect that does not exist; the message lists those that do."""

    def __init__(self, word: str, valid: Iterable[str]) -> None:
        names = list(valid)
        near = difflib.get_close_matches(word, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        super().__init__(f"there is no dialect {word!r}{hint} Dialects: {', '.join(names)}")


def one_two_five(longest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, ... up to `longest`, as engines bound token counts."""
    bounds: list[float] = []
    exponent = 0
    while True:
        for mantissa in (1, 2, 5):
            bound = mantissa * 10**exponent
            if bound > longest:
                return tuple(bounds)
            bounds.append(float(bound))
        exponent += 1


def wall_clock(anchor_unix: float, at: float) -> datetime:
    """The wall time of a virtual one."""
    return datetime.fromtimestamp(anchor_unix + at, UTC)
