"""What goes wrong in a simulated fleet, and what somebody outside sees of it, into files."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from controlplane.cli.metrics_options import MetricsOptions
from controlplane.specs.scenario_compiling import ScenarioDocument
from dataplane.simulation.faults.fleet_faults import FleetFaults
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.observer.dialects import get_dialect
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from dataplane.simulation.observer.gateway_counts import GatewayCounts
from dataplane.simulation.observer.lines import LineFile, Scraped, Seen

SCRAPES, EVENTS, GATEWAYS = "metrics.jsonl", "events.jsonl", "gateways.jsonl"


@contextmanager
def observed(
    fleet: Fleet, document: ScenarioDocument, options: MetricsOptions | None
) -> Iterator[None]:
    """While inside, the fleet runs with the scenario's faults, and what can be seen is written.

    The fleet has not begun. Raises ClickException where a file cannot be written.
    """
    plan = FaultPlan(document.faults)
    if options is None:
        FleetFaults(plan, fleet)
        yield
        return
    with ExitStack() as stack:
        scrapes, events, gateways = _open(options, stack)

        def take(seen: Seen) -> None:
            (scrapes if isinstance(seen, Scraped) else events)(seen)

        dialect = get_dialect(options.dialect)
        exporters = FleetExporters(fleet, lambda replica_id: dialect, take, plan.metrics)
        faults = FleetFaults(plan, fleet)
        faults.on_out_of_memory.append(exporters.ran_out_of_memory)
        faults.on_leak.append(exporters.leaked)
        exporters.observe(options.every_seconds, document.spec.duration)
        GatewayCounts(fleet, gateways, options.every_seconds, document.spec.duration).start()
        yield


def _open(options: MetricsOptions, stack: ExitStack) -> list[LineFile]:
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        return [
            LineFile(stack.enter_context((options.folder / name).open("w", encoding="utf-8")))
            for name in (SCRAPES, EVENTS, GATEWAYS)
        ]
    except OSError as error:
        raise click.ClickException(
            f"{options.folder}: nothing can be written there ({error.strerror}); "
            f"name another folder after --metrics"
        ) from error
