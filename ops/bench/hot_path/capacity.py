"""How many paced streams at once keep their chunks on time: stepping up, then halving.

The search itself is plain: it says which level comes next and is told whether it was kept. All
subjects search side by side, one level each in turn, so that all see the same machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ops.bench.hot_path.figures import Spread, spread
from ops.bench.hot_path.latency import tell_run
from ops.bench.hot_path.stream_run import Quiet, RunFigures, RunTerms
from ops.bench.hot_path.subjects import Subject

LIMIT_MS = 10.0
_MAX_LEVEL = 4096.0


class LevelSearch:
    """The highest level that is kept, to within `precision` of itself.

    A level counts as failed when it has failed twice: once may be another process's doing. One
    that fails while the client is behind says nothing of the subject: where that happens twice
    at a level the search is over, without a verdict.
    """

    def __init__(self, first: float, growth: float = 1.6, precision: float = 0.08) -> None:
        self._next = first
        self._growth = growth
        self._precision = precision
        self._kept = 0.0
        self._failed: float | None = None
        self._has_failed_once = False
        self._was_client_behind = False
        self.why_undecided: str | None = None
        """The client was behind at the level that would have decided; `best` is a bound from
        below."""

    @property
    def best(self) -> float:
        """The highest level that was kept so far; 0 where none was."""
        return self._kept

    def next_level(self) -> float | None:
        """What to try; None once the answer is known well enough, or cannot be known."""
        if self.why_undecided is not None:
            return None
        if self._failed is None:
            return self._next if self._next <= _MAX_LEVEL else None
        if self._failed - self._kept <= max(self._precision * self._failed, 0.5):
            return None
        return self._next

    def note(self, level: float, is_kept: bool, client_behind: str | None = None) -> None:
        """What came of a level, and why the client was behind with it, where it was."""
        if not is_kept and client_behind is not None:
            if self._was_client_behind:
                self.why_undecided = client_behind
            self._was_client_behind = True
            return
        if not is_kept and not self._has_failed_once:
            self._has_failed_once = True
            return
        self._has_failed_once = self._was_client_behind = False
        if is_kept:
            self._kept = max(self._kept, level)
        else:
            self._failed = level if self._failed is None else min(level, self._failed)
        if self._failed is None:
            self._next = level * self._growth
        else:
            self._next = (self._kept + self._failed) / 2


def keeps_level(run: RunFigures, limit_ms: float) -> bool:
    """Every stream came whole, and the 99th percentile of all chunks was below the limit."""
    return run.is_whole and run.chunk_delay_p99 is not None and run.chunk_delay_p99 < limit_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    """Streams at once, by subject."""

    at_once: Mapping[str, Spread]
    client_behind: Mapping[str, str]
    """Subjects of which a search was limited by the client, and why: they keep at least so many,
    and there is no verdict on them."""
    runs: Sequence[RunFigures]

    def share(self, name: str, other: str) -> float | None:
        """How many times as many `name` keeps as `other`, by medians; None where one is missing,
        or is only known from below."""
        if name not in self.at_once or other not in self.at_once:
            return None
        if name in self.client_behind or other in self.client_behind:
            return None
        base = self.at_once[other].median
        return self.at_once[name].median / base if base else None

    def as_dict(self) -> dict[str, Any]:
        """For a report."""
        return {
            "at_once": {name: each.as_dict() for name, each in self.at_once.items()},
            "client_behind": dict(self.client_behind),
            "runs": [asdict(run) for run in self.runs],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """How it is searched."""

    terms: RunTerms
    """Of each level; its rate follows from the level."""
    first_levels: Mapping[str, float]
    num_rounds: int
    limit_ms: float
    precision: float
    """As a share of what is found."""


async def measure_capacity(
    subjects: Mapping[str, Subject], plan: CapacityPlan, quiet: Quiet, tell: Callable[[str], None]
) -> CapacityReport:
    """A whole search of each subject in every round."""
    found: dict[str, list[float]] = {name: [] for name in subjects}
    behind: dict[str, str] = {}
    runs: list[RunFigures] = []
    for number in range(plan.num_rounds):
        searches = {
            name: LevelSearch(plan.first_levels[name], precision=plan.precision)
            for name in subjects
        }
        tell(f"search {number + 1} of {plan.num_rounds}")
        while levels := _open_levels(searches):
            for name, level in levels.items():
                rate = level / plan.terms.pace.stream_seconds
                run = await quiet.run(subjects[name], replace(plan.terms, rate=rate))
                tell(tell_run(run))
                is_kept = keeps_level(run, plan.limit_ms)
                searches[name].note(level, is_kept, run.client_behind)
                runs.append(run)
        for name, search in searches.items():
            found[name].append(search.best)
            if search.why_undecided is not None:
                behind[name] = search.why_undecided
    return CapacityReport(
        at_once={name: spread(levels) for name, levels in found.items()},
        client_behind=behind,
        runs=runs,
    )


def _open_levels(searches: Mapping[str, LevelSearch]) -> dict[str, float]:
    """What each search that is not over tries next."""
    return {
        name: level
        for name, search in searches.items()
        if (level := search.next_level()) is not None
    }
