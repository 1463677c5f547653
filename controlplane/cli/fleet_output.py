"""What a simulated fleet came to, for people and for programs."""

from dataclasses import asdict

from controlplane.cli.terminal import indented, say, say_json, table
from dataplane.simulation.fleet_summary import (
    ClassSummary,
    FleetSummary,
    Quantiles,
    ReplicaSummary,
    TransferSummary,
)

_NOTHING = "-"


def print_fleet(summary: FleetSummary, output: str) -> None:
    """In the order of the summary."""
    if output == "json":
        say_json(asdict(summary))
    else:
        say(_text(summary))


def in_flight_lines(summary: FleetSummary) -> list[str]:
    """Of requests that nothing ends: how many, what they wait for, and what would end them."""
    by_class = {each.request_class: each.in_flight for each in summary.classes if each.in_flight}
    if not by_class:
        return []
    count = sum(by_class.values())
    told = ", ".join(f"{number} of {name}" for name, number in by_class.items())
    return [
        f"warning: {count} {'request is' if count == 1 else 'requests are'} in flight still "
        f"({told}), and nothing ends {'it' if count == 1 else 'them'}",
        *(f"  {wait}" for wait in summary.waits),
        "  they count as offered and have no record, as in a gateway; to see how they end, give "
        "the fault an end (for), or clients that leave (first_token_within, answer_within)",
    ]


def _text(summary: FleetSummary) -> str:
    head = f"{summary.scenario}, seed {summary.seed}: {summary.seconds:.1f} s"
    parts = [
        head,
        table([_COUNTS, *(_counts(each) for each in summary.classes)]),
        table([_TIMES, *(row for each in summary.classes for row in _times(each))]),
        table([_REPLICA, *(_replica(each) for each in summary.replicas)]),
    ]
    if summary.transfer is not None:
        parts.append(_transfer(summary.transfer))
    leaked = sum(gateway.leaked for gateway in summary.gateways)
    if leaked:
        parts.append(indented(f"{leaked} requests were not released in time: a leak"))
    if summary.checksum is not None:
        parts.append(f"checksum {summary.checksum}")
    return "\n\n".join(parts)


_COUNTS = [
    "CLASS",
    "OFFERED",
    "INVALID",
    "REJECTED",
    "ANSWERED",
    "CUT OFF",
    "LEFT",
    "FAILED",
    "IN FLIGHT",
    "ANSWERED/S",
    "GOODPUT/S",
    "IN CONTRACT",
]


def _counts(each: ClassSummary) -> list[str]:
    numbers = (
        each.offered,
        each.invalid,
        each.rejected,
        each.answered,
        each.cut_off,
        each.left,
        each.failed,
        each.in_flight,
    )
    return [
        each.request_class,
        *map(str, numbers),
        _rate(each.completed_per_s),
        _rate(each.goodput_per_s),
        _percent(each.attainment),
    ]


_TIMES = ["CLASS", "", "P50", "P95", "P99"]


def _times(each: ClassSummary) -> list[list[str]]:
    of = {"queue": each.queue_time, "TTFT": each.ttft, "TPOT": each.tpot, "E2E": each.e2e}
    return [[each.request_class, name, *_quantiles(spread)] for name, spread in of.items()]


def _quantiles(spread: Quantiles) -> list[str]:
    return [_seconds(value) for value in (spread.p50, spread.p95, spread.p99)]


_REPLICA = ["REPLICA", "STATE", "STARTS", "REQUESTS", "BUSY", "TOKENS/STEP", "PREEMPTED", "CACHED"]


def _replica(each: ReplicaSummary) -> list[str]:
    return [
        each.replica_id,
        each.state if each.phase is None else f"{each.state}, {each.phase}",
        str(each.starts),
        str(each.requests),
        _percent(each.utilisation),
        _NOTHING if each.tokens_per_step is None else f"{each.tokens_per_step:.1f}",
        str(each.preemptions),
        _percent(each.cache_hit_share),
    ]


def _transfer(each: TransferSummary) -> str:
    return (
        f"KV between phases: {each.transfers} transfers, {each.gigabits:.1f} Gbit\n"
        f"  waited {_seconds(each.slot_wait)} for a decode slot, at most {each.most_waiting} at "
        f"once\n"
        f"  then {_seconds(each.link_wait)} until it was there, at most "
        f"{each.most_backlog_gigabits:.1f} Gbit on the link at once"
    )


def _rate(per_second: float | None) -> str:
    return _NOTHING if per_second is None else f"{per_second:.2f}"


def _percent(share: float | None) -> str:
    return _NOTHING if share is None else f"{100 * share:.1f} %"


def _seconds(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s"
