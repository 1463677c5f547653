"""How long does the oldest batch request wait under interactive overload that goes on and on?

The bound. Batch has the lower priority and gains `aging` a second by waiting; interactive has the
higher one, and may gain by its own aging until its deadline. Let

    gap   (priority of interactive + its aging x its deadline - priority of batch) / aging of batch
    hold  the longest that any request keeps its slot, of m slots
    n     batch requests older than this one that still wait when it has waited for `gap`

Once a batch request has waited for `gap`, its class stands above interactive, and stays there
until it has left: whatever slot becomes free is given to batch. Each of the m slots becomes free
within `hold`, so m of those that wait begin in each `hold`, and its wait is at most

    gap + hold x ceil((n + 1) / m)

Only `gap` depends on the policy; the rest is what one slot more takes, as long as batch by itself
is less than can be served. `tests/dataplane/queueing/test_starvation.py` holds the queue to it.

The service is that of `ops/examples/simulate/starvation.yaml`: half as much again of interactive
requests as one replica of four slots can serve. Told are, over all seeds, the longest wait of any
batch request that began or still waited at the end, the bound (the least and the most of what it
was for those that waited for `gap`), and how many waited past theirs: none may.

    .venv/bin/python ops/bench/bench_starvation.py
"""

import argparse
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.yaml_reader import read_yaml
from dataplane.policy import ClassPolicy
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_scenario import FleetScenario

EXAMPLE = Path(__file__).parents[1] / "examples" / "simulate" / "starvation.yaml"
LONGEST_STEP = 0.03
"""Seconds: a slot that is given is taken up by the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How batch, and interactive, gain by waiting; priority a second."""

    batch: float
    interactive: float = 0.0

    @property
    def name(self) -> str:
        """As a policy writes it."""
        own = f"batch {self.batch:g}/s" if self.batch else "batch does not age"
        return own + (f", interactive {self.interactive:g}/s" if self.interactive else "")

    def apply(self, of: ClassPolicy) -> ClassPolicy:
        """To one of the example's classes."""
        return replace(of, aging_per_second=self.batch if of.name == "batch" else self.interactive)


SETTINGS = (
    Setting(batch=0.5),
    Setting(batch=1),
    Setting(batch=2),
    Setting(batch=5),
    Setting(batch=10),
    Setting(batch=5, interactive=2),
    Setting(batch=0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Of one run."""

    gap: float
    longest: float
    """Of all that began, and of those that still wait."""
    bounds: tuple[float, ...]
    """Of those that waited for `gap`."""
    num_past: int
    num_batch: int


def make_scenario(setting: Setting, seed: int, seconds: float) -> FleetScenario:
    """The example's, with other aging."""
    [source], problems = read_yaml(EXAMPLE.name, EXAMPLE.read_text())
    document, more = read_scenario(source, EXAMPLE.parent)
    if document is None:
        raise ValueError("; ".join(map(str, [*problems, *more])))
    fleet = document.fleet
    classes = tuple(map(setting.apply, fleet.policy.classes))
    policy = replace(fleet.policy, classes=classes)
    return replace(fleet, policy=policy, seed=seed, duration=seconds)


def find_gap(classes: tuple[ClassPolicy, ...]) -> float:
    """Seconds until batch stands above interactive; inf: never."""
    by_name = {each.name: each for each in classes}
    above, batch = by_name["interactive"], by_name["batch"]
    if not batch.aging_per_second:
        return math.inf
    highest = above.priority + above.aging_per_second * (above.deadline_seconds or 0.0)
    return (highest - batch.priority) / batch.aging_per_second


def measure(setting: Setting, seed: int, seconds: float) -> Waits:
    """Run it until calls end, and look at who waited for how long."""
    scenario = make_scenario(setting, seed, seconds)
    num_slots = scenario.policy.max_active_per_replica or 1
    fleet = Fleet(scenario)
    fleet.run_until(seconds)
    columns = fleet.results.columns
    assert columns is not None
    waited = np.frombuffer(columns.queue_time)
    hold = float(np.nanmax(np.frombuffer(columns.e2e) - waited)) + LONGEST_STEP
    rows = columns.rows_of_class("batch") & ~np.isnan(waited)
    entered = list(np.frombuffer(columns.arrived_at)[rows])
    waits = list(waited[rows])
    for request in fleet.live():
        if request.request_class is not None and request.request_class.name == "batch":
            began = seconds if request.scheduled_at is None else request.scheduled_at
            entered.append(request.arrived_at)
            waits.append(began - request.arrived_at)
    gap = find_gap(scenario.policy.classes)
    bounds = _bounds(np.array(entered), np.array(waits), gap, hold, num_slots)
    return Waits(
        gap=gap,
        longest=max(waits),
        bounds=tuple(bound for bound, _ in bounds),
        num_past=sum(wait > bound for bound, wait in bounds),
        num_batch=len(waits),
    )


def _bounds(
    entered: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    waits: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    gap: float,
    hold: float,
    num_slots: int,
) -> list[tuple[float, float]]:
    """The bound, and the wait, of each that waited for the gap."""
    began, found = entered + waits, []
    for at, wait in zip(entered, waits, strict=True):
        if wait >= gap:
            num_older = int(((entered < at) & (began > at + gap)).sum())
            found.append((gap + hold * math.ceil((num_older + 1) / num_slots), float(wait)))
    return found


def tell(setting: Setting, runs: list[Waits]) -> None:
    """One line."""
    longest = max(each.longest for each in runs)
    bounds = [bound for each in runs for bound in each.bounds]
    bound = f"bound {min(bounds):6.1f} to {max(bounds):6.1f} s" if bounds else "no bound" + 17 * " "
    sys.stdout.write(
        f"{setting.name:32} gap {runs[0].gap:6.1f} s  oldest waited {longest:6.1f} s  {bound}  "
        f"{sum(each.num_past for each in runs)} past it of {len(bounds)} that waited for the gap, "
        f"of {sum(each.num_batch for each in runs)}\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Measure, and print. Exit code 1 where somebody waited past its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=900.0, help="of virtual time")
    options = parser.parse_args()
    num_past = 0
    for setting in SETTINGS:
        runs = [measure(setting, seed, options.seconds) for seed in range(1, options.seeds + 1)]
        tell(setting, runs)
        num_past += sum(each.num_past for each in runs)
    raise SystemExit(1 if num_past else 0)


if __name__ == "__main__":
    main()
