"""Runs at several loads against a gateway whose stub has few slots, in turn, round by round."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ops.bench.hot_path.arrivals import Arrivals, arrival_times
from ops.bench.hot_path.figures import spread
from ops.bench.hot_path.gateway_under_test import GatewayUnderTest
from ops.bench.hot_path.load import LoadClient
from ops.bench.hot_path.overload_terms import OverloadTermsOfRun, overload_calls
from ops.bench.hot_path.refusals import Refusals, judge
from ops.bench.hot_path.subjects import Pace

_RECORDS_SECONDS = 15.0
_CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadPlan:
    """What is run."""

    factors: Sequence[float]
    """Loads, as multiples of what the slots can do."""
    seconds: float
    num_rounds: int
    contract_seconds: float
    """By when a first text is in time."""
    arrivals: Arrivals
    pace: Pace
    terms: OverloadTermsOfRun

    @property
    def capacity(self) -> float:
        """Streams a second that the slots can do."""
        return self.terms.num_slots / self.pace.stream_seconds


async def measure_overload(
    gateway: GatewayUnderTest, plan: OverloadPlan, tell: Callable[[str], None]
) -> list[Refusals]:
    """Every load once in each round; the first run, which is not told, warms up."""
    await _run(gateway, plan, min(plan.factors), min(2.0, plan.seconds), seed=0)
    found = []
    for number in range(plan.num_rounds):
        for factor in plan.factors:
            refusals = await _run(gateway, plan, factor, plan.seconds, seed=1 + number)
            tell(tell_run(refusals))
            found.append(refusals)
    return found


async def _run(
    gateway: GatewayUnderTest, plan: OverloadPlan, factor: float, seconds: float, seed: int
) -> Refusals:
    times = arrival_times(plan.arrivals, factor * plan.capacity, seconds, seed)
    calls = overload_calls(gateway.address, plan.terms, times, seed)
    client = LoadClient(address=gateway.address, pace_seconds=plan.pace.seconds)
    num_before = gateway.counts()["num_records"]
    await client.warm_up(_CONNECTIONS)
    result = await client.run(calls)
    client.close()
    await _wait_for_records(gateway, num_before + len(calls))
    return judge(factor, calls, gateway.ends(), plan.contract_seconds, result.why_behind())


async def _wait_for_records(gateway: GatewayUnderTest, num_records: int) -> None:
    """Until all are delivered; what does not come in time is told as unrecorded."""
    deadline = time.monotonic() + _RECORDS_SECONDS
    while gateway.counts()["num_records"] < num_records and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.2)


def tell_run(run: Refusals) -> str:
    """One line on one run."""
    waited = run.on_arrival
    told = "nobody refused on arrival"
    if waited is not None:
        kinds = ", ".join(f"{kind} {each.p99:.1f}" for kind, each in run.on_arrival_by_kind.items())
        told = (
            f"{waited.num} refused on arrival after p50 {waited.p50:.2f} p99 {waited.p99:.2f} most "
            f"{waited.most:.1f} ms (p99 by prompt: {kinds})"
        )
    in_time = "none" if run.attainment is None else f"{100 * run.attainment:.1f} %"
    reasons = ", ".join(f"{num} {reason}" for reason, num in sorted(run.reasons.items()))
    line = (
        f"  {run.factor:g} x: {run.num_sent} sent, {run.num_served} served, {in_time} of these in "
        f"time; {told}; {run.num_waited_in_vain} waited in vain; {reasons}"
    )
    if not run.is_sound:
        line += (
            f"; {run.num_unanswered} UNANSWERED, {run.num_unrecorded} UNRECORDED, "
            f"FAULTS {run.faults}"
        )
    if run.client_behind is not None:
        line += f"; THE CLIENT WAS BEHIND: {run.client_behind}"
    return line


def tell_spread(runs: Sequence[Refusals], factor: float) -> str:
    """One line on all runs at one load."""
    own = [run for run in runs if run.factor == factor]
    waited = [run.on_arrival for run in own if run.on_arrival is not None]
    attained = [100 * share for run in own if (share := run.attainment) is not None]
    line = f"{factor:g} x: "
    if waited:
        p50, p99 = (spread([getattr(each, name) for each in waited]) for name in ("p50", "p99"))
        line += f"refused on arrival after p50 {p50.tell(' ms')}, p99 {p99.tell(' ms')}; "
    else:
        line += "nobody refused on arrival; "
    told = spread(attained).tell(" %", 1) if attained else "none"
    return line + f"served in time {told}"
