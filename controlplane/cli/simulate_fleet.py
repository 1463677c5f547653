"""`pilothouse simulate` of a Scenario: a fleet in virtual time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.cli.fleet_output import in_flight_lines, print_fleet
from controlplane.cli.left_out_calls import left_out_lines
from controlplane.cli.metrics_options import MetricsOptions
from controlplane.cli.record_delivery import RecordDelivery, RecordFile
from controlplane.cli.simulate_metrics import observed
from controlplane.cli.simulate_start import placed
from controlplane.cli.terminal import say
from controlplane.specs.scenario_compiling import ScenarioDocument
from dataplane.record import RequestRecord
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import (
    NoRecords,
    RecordKeeper,
    SampledRecords,
    StreamedRecords,
)
from dataplane.simulation.fleet_summary import summarize


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """What the command line asks for beside the scenario."""

    output: str
    records: Path | None = None
    send: str | None = None
    starts_at_unix_ns: int | None = None
    sample: int | None = None
    keeps_rows: bool = True
    metrics: MetricsOptions | None = None


def simulate_fleet(document: ScenarioDocument, options: FleetOptions) -> None:
    """Run, hand the records on, and print.

    What nothing ends is no failure of the run: whoever lets a replica hang for good wants to see
    what becomes of everybody else. It is counted, and named on standard error.
    """
    document = placed(document, options.starts_at_unix_ns, options.send)
    for warning in left_out_lines(document):
        say(warning, is_error=True)
    with _open_takers(options) as takers:
        keeper = _keeper(document, options, takers)
        fleet = Fleet(document.fleet, keeper, keeps_rows=options.keeps_rows)
        with observed(fleet, document, options.metrics):
            fleet.run_out()
        if isinstance(keeper, SampledRecords):
            for record in keeper.records():
                _give(takers, record)
    summary = summarize(fleet)
    print_fleet(summary, options.output)
    for warning in in_flight_lines(summary):
        say(warning, is_error=True)


@contextmanager
def _open_takers(options: FleetOptions) -> Iterator[list[Callable[[RequestRecord], None]]]:
    takers: list[Callable[[RequestRecord], None]] = []
    delivery = None
    if options.send is not None:
        delivery = RecordDelivery(options.send)
        takers.append(delivery.take)
    if options.records is None:
        yield takers
    else:
        with RecordFile(options.records) as file:
            takers.append(file.take)
            yield takers
    if delivery is not None:
        delivery.close()
        again = f", {delivery.num_duplicates} were there" if delivery.num_duplicates else ""
        say(f"{delivery.num_stored} records sent{again}", is_error=True)


def _keeper(
    document: ScenarioDocument,
    options: FleetOptions,
    takers: list[Callable[[RequestRecord], None]],
) -> RecordKeeper:
    if not takers:
        return NoRecords()
    if options.sample is not None:
        return SampledRecords(options.sample, document.fleet.seed)
    return StreamedRecords(lambda record: _give(takers, record))


def _give(takers: list[Callable[[RequestRecord], None]], record: RequestRecord) -> None:
    for take in takers:
        take(record)
