"""Whether the control plane's own burn rates and Prometheus' agree on the same requests.

    .venv/bin/python ops/bench/bench_slo_agreement.py
    .venv/bin/python ops/bench/bench_slo_agreement.py --even --rate 2

Makes up a steady stream of requests that take a while to answer. Their records go into a request
database, as gateways deliver them; what a gateway's counters would have shown at each scrape goes
into a real Prometheus, where the rules that ship are evaluated over it. Then both are asked for the
burn rate of each window at many moments of the last hour, none of which is a whole minute, and the
largest difference is printed. Goal: 1 % for windows of an hour or more. Of fewer requests chance
alone makes more: the requests of the minute with which ours begin, and of the scrape with which
theirs end, are in one of both.
"""

import argparse
import dataclasses
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

from controlplane.slo.alert_windows import BURN_WINDOWS, HOUR, short
from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import RecordingRule
from controlplane.slo.promised import Promise
from controlplane.slo.reading import StandingReader
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.counts import add_counts
from controlplane.store.database import Database, create_or_open_database
from controlplane.store.request_rows import CountKey, count_measures
from dataplane import names
from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import Judgement, judge
from dataplane.latency import Boundary, Latencies
from dataplane.lifecycle import Event, EventKind
from dataplane.outcome import Outcome
from dataplane.record import RequestRecord
from ops.bench.slo.prometheus_server import FilledPrometheus, query_range
from ops.sample_requests import Sample, answered

SCRAPE_SECONDS = 15
_MOMENT_SECONDS = 150
_TARGET = 0.99
_BAD_SHARE = 0.05
_MEAN_SECONDS = 8.0
_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=(Objective(signal=ObjectiveSignal.AVAILABILITY, target=_TARGET),),
    together=(),
)
_GATEWAY = 'instance="gw:8701",job="pilothouse-gateway"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One request that ended."""

    at: float
    """Seconds since the epoch; so is the arrival."""
    arrived_at: float
    is_good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Of one window."""

    seconds: int
    num_moments: int
    largest_share: float
    """Of the difference of two burn rates, in Prometheus' one."""
    burn_rate: float
    """Prometheus', at the last moment."""


def steady_stream(start: int, end: int, rate: float, random: Random) -> list[Ending]:
    """Poisson arrivals, `rate` a second, some of them bad, in the order in which they end."""
    found, arrived = [], float(start)
    while (arrived := arrived + random.expovariate(rate)) < end:
        ends = arrived + random.expovariate(1 / _MEAN_SECONDS)
        is_good = random.random() >= _BAD_SHARE
        found.append(Ending(at=ends, arrived_at=arrived, is_good=is_good))
    return _in_order(found, end)


def even_stream(start: int, end: int, rate: float, random: Random) -> list[Ending]:
    """Arrivals as far apart as each other, every twentieth of them bad: without chance in it, what
    differs is where windows begin and end."""
    found = []
    for number in range(round((end - start) * rate)):
        arrived = start + number / rate
        ends = arrived + random.expovariate(1 / _MEAN_SECONDS)
        found.append(Ending(at=ends, arrived_at=arrived, is_good=number % 20 != 0))
    return _in_order(found, end)


def _in_order(found: Iterable[Ending], end: int) -> list[Ending]:
    return sorted((each for each in found if each.at < end), key=lambda each: each.at)


def measure(folder: Path, start: int, end: int, stream: Sequence[Ending]) -> list[Agreement]:
    """The windows that fit in between. `end`: a whole hour that is over."""
    hours = (end - start) // HOUR
    windows = [seconds for seconds in BURN_WINDOWS if seconds + 2 * HOUR <= hours * HOUR]
    moments = list(range(end - HOUR + 17, end, _MOMENT_SECONDS))
    theirs = _of_prometheus(folder, stream, windows, start, end, moments)
    ours = _of_control_plane(folder, stream, windows, moments)
    return [_compare(seconds, ours[seconds], theirs[seconds]) for seconds in windows]


def _compare(seconds: int, ours: Sequence[float], theirs: Sequence[float]) -> Agreement:
    pairs = list(zip(ours, theirs, strict=True))
    return Agreement(
        seconds=seconds,
        num_moments=len(pairs),
        largest_share=max(abs(own - their) / their for own, their in pairs),
        burn_rate=theirs[-1],
    )


def _promise() -> Promise:
    return Promise(
        deployment="chat",
        request_class="interactive",
        objective=ObjectiveSignal.AVAILABILITY.value,
        at_most_seconds=None,
        target=_TARGET,
        period_seconds=30 * 24 * HOUR,
        contract_revision="chat@1",
    )


def _of_control_plane(
    folder: Path, stream: Sequence[Ending], windows: Sequence[int], moments: Sequence[int]
) -> dict[int, list[float]]:
    """At each moment from the records of what had ended by then."""
    url = sqlite_url(folder / "requests.db")
    database = create_or_open_database(url, DatabaseKind.REQUESTS)
    reader, found = StandingReader(), {seconds: list[float]() for seconds in windows}
    for since, moment in pairwise([0, *moments]):
        _deliver(database, [each for each in stream if since <= each.at < moment])
        with database.reading() as session:
            (standing,) = reader.read(session, [_promise()], moment)
        for seconds in windows:
            found[seconds].append(standing.burn(seconds) or 0.0)
    database.close()
    return found


def _deliver(database: Database, endings: Sequence[Ending]) -> None:
    counts: Counter[CountKey] = Counter()
    for ending in endings:
        counts.update(count_measures(_record(ending)))
    with database.session() as session:
        add_counts(session, counts)


_SAMPLE = answered(Sample(sequence=1, arrived_at_unix_ns=0))
_EVENTS = tuple(each for each in _SAMPLE.events if each.kind is not EventKind.LAST_WRITE)


def _judgement(outcome: Outcome) -> Judgement:
    return judge(Latencies(), outcome, _TERMS, elapsed=0.0)


_JUDGEMENTS = {True: _judgement(Outcome.ANSWERED), False: _judgement(Outcome.SERVICE_FAILED)}


def _record(ending: Ending) -> RequestRecord:
    last_write = Event(kind=EventKind.LAST_WRITE, at=ending.at - ending.arrived_at)
    return dataclasses.replace(
        _SAMPLE,
        arrived_at_unix_ns=round(ending.arrived_at * 1e9),
        deployment="chat",
        request_class="interactive",
        contract_revision="chat@1",
        events=(*_EVENTS, last_write),
        judgement=_JUDGEMENTS[ending.is_good],
    )


def _of_prometheus(
    folder: Path,
    stream: Sequence[Ending],
    windows: Sequence[int],
    start: int,
    end: int,
    moments: Sequence[int],
) -> dict[int, list[float]]:
    """At each moment the last value that the rules had recorded by then."""
    prometheus = FilledPrometheus(folder=folder)
    prometheus.fill("\n".join((*_exposed(stream, start, end), "# EOF\n")))
    for group, interval, rules in _stages():
        prometheus.record(group, interval, rules, start, end)
    labels = 'deployment="chat",request_class="interactive",objective="availability"'
    found = {}
    with prometheus.running() as url:
        for seconds in windows:
            query = f"{names.SLO_BURN_RATE.format(short(seconds))}{{{labels}}}"
            values = query_range(url, query, moments[0], moments[-1], _MOMENT_SECONDS)
            found[seconds] = [values[moment] for moment in moments]
    return found


def _stages() -> Iterator[tuple[str, int, list[RecordingRule]]]:
    """The rules that ship, in stages each of which refers to those before it alone."""
    fine, coarse = counting_groups()
    burns = burning_groups([_promise()], Links(console_url="http://console")).groups[0]
    recorded = [each for each in fine.rules if isinstance(each, RecordingRule)]
    readings = [each for each in recorded if each.record.endswith(":reading")]
    slots = [each for each in recorded if ":slot" in each.record]
    sums = [each for each in recorded if ":sum" in each.record]
    longer = [each for each in coarse.rules if isinstance(each, RecordingRule)]
    rates = [each for each in burns.rules if isinstance(each, RecordingRule)]
    yield "readings", fine.interval_seconds, readings
    yield "slots", fine.interval_seconds, slots
    yield "sums", fine.interval_seconds, sums
    yield "long-sums", coarse.interval_seconds, longer
    yield "burns", burns.interval_seconds, rates


def _exposed(stream: Sequence[Ending], start: int, end: int) -> Iterator[str]:
    """A gateway's page at each scrape, in OpenMetrics' text: family by family, with times."""
    scrapes = range(start + 3, end, SCRAPE_SECONDS)
    for counter, counts in (
        (names.GATEWAY_OBJECTIVE_JUDGED_TOTAL, lambda ending: True),
        (names.GATEWAY_OBJECTIVE_GOOD_TOTAL, lambda ending: ending.is_good),
    ):
        labels = (
            f'deployment="chat",request_class="interactive",objective="availability",{_GATEWAY}'
        )
        yield f"# TYPE {counter.removesuffix('_total')} counter"
        value, position = 0, 0
        for at in scrapes:
            while position < len(stream) and stream[position].at < at:
                value += counts(stream[position])
                position += 1
            yield f"{counter}{{{labels}}} {value} {at}"
    for gauge, worth in (
        ("process_start_time_seconds", start),
        (names.GATEWAY_SNAPSHOT_VERSION, 1),
    ):
        yield f"# TYPE {gauge} gauge"
        yield from (f"{gauge}{{{_GATEWAY}}} {worth} {at}" for at in scrapes)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=int, default=9, help="of traffic; 26 for the day's window")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--even", action="store_true", help="no chance in arrivals and errors")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        end = int(time.time()) // HOUR * HOUR
        start, random = end - given.hours * HOUR, Random(given.seed)
        made = even_stream if given.even else steady_stream
        stream = made(start, end, given.rate, random)
        for each in measure(Path(folder), start, end, stream):
            print(
                f"{short(each.seconds):>4}: {100 * each.largest_share:6.2f} % apart at most, over "
                f"{each.num_moments} moments; burn rate {each.burn_rate:.2f}"
            )


if __name__ == "__main__":
    _main()
