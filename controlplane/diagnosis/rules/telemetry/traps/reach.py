"""A gauge that cannot come to where somebody waits for it."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.readers import names_read
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from dataplane.engine_metrics.signal import Signal

_SCALES = re.compile(r"scal|hpa|keda|trigger|replicas", re.IGNORECASE)
_TARGET = re.compile(
    r"(?:>=?|above|over|exceeds|average(?: ?value)?|target(?: ?value)?|threshold|value)"
    r"[ :=]{1,3}(\d+(?:\.\d+)?)\b(?! ?%)",
    re.IGNORECASE,
)
_SEATS = r"^(num )?(parallel |server )?(slots|seats)( per \w+| each)?$|max num seqs|max running"


def above_all_seats(argument: Argument, now: Activity) -> Confidence | None:
    """A scaler waits for more to run on a replica than it has seats: the rest waits, and never
    shows in what runs."""
    series, waiting, seats = now.running, now.waiting, _seats(now)
    if series is None or waiting is None or seats is None or waiting.last.value <= 0:
        return None
    for read in names_read(now.window):
        target = _TARGET.search(read.text)
        is_scaler = _SCALES.search(read.said) is not None and not read.is_change
        if read.name != series.origin.name or target is None or not is_scaler:
            continue
        if not _is_out_of_reach(float(target[1]), read.text, seats[0]) or series.max > seats[0]:
            continue
        argument.says(read.said)
        _cite(argument, now, series, seats)
        return Confidence.CERTAIN
    return None


def _is_out_of_reach(target: float, text: str, seats: float) -> bool:
    """An average that stands at its target asks for nothing."""
    return target > seats or (target == seats and ">=" not in text)


def _seats(now: Activity) -> tuple[float, Fact | None] | None:
    """Of one replica, and where it was told."""
    fact = told_number(now.window, _SEATS)
    told = number_of(fact)
    if told:
        return told, fact
    return None if not now.seats else (now.seats, None)


def _cite(
    argument: Argument, now: Activity, series: Series, seats: tuple[float, Fact | None]
) -> None:
    many, fact = seats
    argument.series(series, f"at most {number(many)} can run, and no more than the target")
    argument.fact(fact)
    argument.series(now.waiting, "this is what shows the load")
    argument.series(now.in_flight)
    for told in told_all(now.window, r"replicas|scaler|hpa|keda|scaled"):
        argument.fact(told)
    argument.series(now.window.find(Signal.GENERATION_TOKENS))
    argument.against("telemetry.missing: the series is there")
    argument.against("queue.overload: it is what follows, since nobody asks for another replica")
