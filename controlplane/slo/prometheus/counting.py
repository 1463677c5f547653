"""How Prometheus counts what objectives judged: the same rules for every contract.

Each evaluation records the readings of the counters that it saw, target by target. A *slot* is what
was counted between the readings of two evaluations, so that slots add up to what the counters
counted, however scrapes and evaluations fall between each other, and when one is skipped.
`increase()` instead looks at the samples inside its range and guesses the rest, so that what comes
between two ranges is lost. Every window is a sum of slots, and ratios come last.

    the target's process   the series was read before   slot
    the same as before     yes, and judged no less      now - before
    the same as before     yes, and judged less         now: something counts from zero again
    the same as before     no                           now: it came into being since
    another one            whatever                     now: it counts from zero
    not read before, new   no                           now
    not read before, old   no                           nothing: Prometheus was away for long

*before* is the last reading that an earlier evaluation recorded, up to half an hour back: where
scrapes were missed for a while, what came meanwhile is counted when they return. Whether a process
is another one is told by its start, since a counter may have grown past its old value. What fell
under the same start was begun anew as well: by `judged` for both, so that the two are of one time.
"""

from collections.abc import Callable, Iterator

from controlplane.slo.alert_windows import BURN_WINDOWS, HOUR, MINUTE, short
from controlplane.slo.prometheus.rules import RecordingRule, RuleGroup
from dataplane import names

SLOT_SECONDS = 30
COARSE_SECONDS = 5 * MINUTE
COUNTED = ("judged", "good")
_BY = f"{names.LABEL_DEPLOYMENT}, {names.LABEL_REQUEST_CLASS}, {names.LABEL_OBJECTIVE}"
_KNOWN_FOR = "30m"
_NEW_SECONDS = 4 * SLOT_SECONDS
"""A process that started before so many seconds is old: two scrapes at the usual interval, and
two evaluations."""
_ON = "on (job, instance)"
LONG_SECONDS = MINUTE
"""Well below the five minutes after which Prometheus takes a series for gone."""
FINE_WINDOWS = tuple(seconds for seconds in BURN_WINDOWS if seconds <= 6 * HOUR)
COARSE_WINDOWS = tuple(seconds for seconds in BURN_WINDOWS if seconds > 6 * HOUR)
_STARTED = f"process_start_time_seconds and {_ON} {names.GATEWAY_SNAPSHOT_VERSION}"
"""Of gateways alone, whatever their job is called."""
_COUNTERS = (
    ("judged", names.GATEWAY_OBJECTIVE_JUDGED_TOTAL),
    ("good", names.GATEWAY_OBJECTIVE_GOOD_TOTAL),
)


def counting_groups() -> tuple[RuleGroup, ...]:
    """Slots and the windows up to six hours twice a minute; longer ones once a minute."""
    return (
        RuleGroup(
            name="pilothouse-slo-counts",
            interval_seconds=SLOT_SECONDS,
            rules=(*_readings(), *_slots(), *_sums(FINE_WINDOWS, sum_of_slots)),
        ),
        RuleGroup(
            name="pilothouse-slo-long-counts",
            interval_seconds=LONG_SECONDS,
            rules=tuple(_sums(COARSE_WINDOWS, sum_of_fives)),
        ),
    )


def sum_name(counted: str, seconds: int) -> str:
    """The series of one window: `pilothouse:objective_judged:sum1h`."""
    return f"pilothouse:objective_{counted}:sum{short(seconds)}"


def sum_of_slots(counted: str, seconds: int) -> str:
    """For windows of some hours. A range begins with the reading at its very start in Prometheus 2
    and just after it in 3: a second less holds the same slots in both."""
    return f"sum_over_time({names.SLO_SLOT.format(counted)}[{seconds - 1}s])"


def sum_of_fives(counted: str, seconds: int, selector: str = "") -> str:
    """For longer ones, from every tenth sum of five minutes: three days have 8,640 slots, and 864
    of those. The steps of a subquery are whole multiples of its step, so none is taken twice,
    but where Prometheus was away: a sum is then seen for five minutes after its last reading."""
    fives = f"{sum_name(counted, COARSE_SECONDS)}{selector}"
    return f"sum_over_time({fives}[{seconds - 1}s:{COARSE_SECONDS}s])"


def _readings() -> Iterator[RecordingRule]:
    yield RecordingRule(record=names.SLO_STARTED_READING, expr=_STARTED)
    for counted, counter in _COUNTERS:
        yield RecordingRule(record=names.SLO_READING.format(counted), expr=counter)


def _slots() -> Iterator[RecordingRule]:
    for counted, _ in _COUNTERS:
        yield RecordingRule(record=names.SLO_SLOT.format(counted), expr=_slot(counted))


def _slot(counted: str) -> str:
    now, started = names.SLO_READING.format(counted), names.SLO_STARTED_READING
    before, started_before = reading_before(now), reading_before(started)
    is_same, is_other = f"{started} == {started_before}", f"{started} != {started_before}"
    is_new = f"(time() - {started}) < {_NEW_SECONDS}"
    judged = names.SLO_READING.format("judged")
    judged_before = reading_before(judged)
    return (
        f"sum by ({_BY}) (\n"
        f"  ({now} - {before}) and {_ON} ({is_same}) and ({judged} >= {judged_before})\n"
        f"  or {now} and ({judged} < {judged_before})\n"
        f"  or ({now} unless {before}) and {_ON} ({is_same})\n"
        f"  or {now} and {_ON} ({is_other})\n"
        f"  or ({now} unless {_ON} {started_before}) and {_ON} {is_new}\n"
        ")"
    )


def reading_before(reading: str) -> str:
    """What an earlier evaluation recorded last."""
    return f"last_over_time({reading}[{_KNOWN_FOR}] offset {SLOT_SECONDS}s)"


def _sums(windows: tuple[int, ...], total: Callable[[str, int], str]) -> Iterator[RecordingRule]:
    for seconds in windows:
        for counted in COUNTED:
            yield RecordingRule(record=sum_name(counted, seconds), expr=total(counted, seconds))
