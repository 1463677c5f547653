"""What the gateway adds to the first byte: measured beside the stub alone, round by round."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ops.bench.hot_path.figures import Spread, spread
from ops.bench.hot_path.stream_run import Quiet, RunFigures, RunTerms
from ops.bench.hot_path.subjects import STUB, Subject

GOAL_P50_MS = 2.0
GOAL_P99_MS = 10.0
_MUCH_WAITING = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Milliseconds that one subject adds to the stub's own, over rounds."""

    subject: str
    p50: Spread | None
    """None, as of the others: there is no round in which it was measured."""
    p99: Spread | None
    chunk_p99: Spread | None
    """Of the delay of chunks, without the stub's own taken off."""
    processor_us: Spread
    """Of one stream, without the stub's and the client's."""

    @property
    def keeps_goal(self) -> bool | None:
        """Both goals, by the medians of the rounds; None: nothing was measured."""
        if self.p50 is None or self.p99 is None:
            return None
        return self.p50.median < GOAL_P50_MS and self.p99.median < GOAL_P99_MS

    def tell(self) -> str:
        """One line."""
        p50, p99, late = _told_spread(self.p50), _told_spread(self.p99), self.chunk_p99
        return (
            f"{self.subject:12} adds p50 {p50}, p99 {p99} to "
            f"the first byte; chunks late p99 {_told_spread(late, 1)}; "
            f"{self.processor_us.tell(' us', 0)} of a core for a stream"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyReport:
    """All rounds."""

    runs: Sequence[RunFigures]
    added: Mapping[str, Added]

    def as_dict(self) -> dict[str, Any]:
        """For a report."""
        return {
            "added": {name: asdict(each) for name, each in self.added.items()},
            "runs": [asdict(run) for run in self.runs],
        }


async def measure_latency(
    subjects: Mapping[str, Subject],
    terms: RunTerms,
    num_rounds: int,
    quiet: Quiet,
    tell: Callable[[str], None],
) -> LatencyReport:
    """Every subject once in each round, in turn. The stub must be among them."""
    runs: list[RunFigures] = []
    for number in range(num_rounds):
        names = list(subjects)
        # Whoever comes first in one round comes last in the next.
        for name in names if number % 2 == 0 else reversed(names):
            figures = await quiet.run(subjects[name], terms)
            tell(tell_run(figures))
            runs.append(figures)
    rounds = {name: [run for run in runs if run.subject == name] for name in subjects}
    added = {name: _add_up(name, rounds[name], rounds[STUB]) for name in subjects if name != STUB}
    return LatencyReport(runs=runs, added=added)


def tell_run(run: RunFigures) -> str:
    """One line on one run."""
    line = (
        f"  {run.subject:12} {run.rate:6.1f} streams/s ({_told(run.at_once, 1)} at once): first "
        f"chunk p50 {_told(run.first_chunk_p50)} p99 {_told(run.first_chunk_p99)} ms, chunks "
        f"late p50 {_told(run.chunk_delay_p50)} p99 {_told(run.chunk_delay_p99)} ms, "
        f"{run.num_whole}/{run.num_sent} whole, sent late p99 {run.send_delay_p99:.1f} ms, "
        f"others used {run.cores_of_others + run.cores_stolen:.2f} cores"
    )
    kept_waiting = [
        f"{name} {100 * share:.0f} %"
        for name, share in run.waiting_by_process.items()
        if share > _MUCH_WAITING
    ]
    if kept_waiting:
        line += f", ready and without a core: {', '.join(kept_waiting)} of the time"
    if not run.is_whole:
        line += f"; ends {run.ends}"
    if run.client_behind is not None:
        line += f"; THE CLIENT WAS BEHIND: {run.client_behind}"
    return line


def _told(value: float | None, digits: int = 2) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def _told_spread(figure: Spread | None, digits: int = 2) -> str:
    return "none" if figure is None else figure.tell(" ms", digits)


def _add_up(name: str, own: Sequence[RunFigures], stub: Sequence[RunFigures]) -> Added:
    def difference(figure: str) -> Spread | None:
        pairs = [
            (getattr(mine, figure), getattr(its, figure))
            for mine, its in zip(own, stub, strict=True)
        ]
        return _spread_of_known([None if None in pair else pair[0] - pair[1] for pair in pairs])

    return Added(
        subject=name,
        p50=difference("first_chunk_p50"),
        p99=difference("first_chunk_p99"),
        chunk_p99=_spread_of_known([run.chunk_delay_p99 for run in own]),
        processor_us=spread([run.processor_us_by_stream[name] for run in own]),
    )


def _spread_of_known(values: Sequence[float | None]) -> Spread | None:
    """A round that measured nothing is none, not one of zero."""
    known = [value for value in values if value is not None]
    return spread(known) if known else None
