"""One thing seen twice: what somebody exports of it does not move, and by hand it is another."""

import itertools
import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.standing import cite_beside
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import MOST_FACTS
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Unit

_EXPORTED = (
    r"exporter|exported|dcgm|prometheus|dashboard|panel|grafana|router|picker|scaler|hpa|keda"
    r"|adapter|metrics?|gauge|shown|reported"
)
_BY_HAND = (
    r"nvidia smi|smi|by hand|hand|real|actual|true|truth|itself|own|direct|curl|engine|log|observed"
)
_STILL = r"\b(flat|unchanged|constant|frozen|stuck|same value|not (moved|changed)|identical)\b"
_STILL_SECONDS = 300.0
_APART = 3.0
_FILLERS = re.compile(r"\b(the|for|at|of|value|percent|now|says|min|s|last|mean)\b")


def still_and_not_so(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A value that is told to stand for minutes, and another of the same thing that is not it."""
    still = [fact for fact in told_all(now.window, _STILL) if _for_long(fact)]
    if not still:
        return None
    pairs = _pairs(now.window.facts)
    if not pairs:
        return None
    for fact in still:
        argument.fact(fact)
    for shown, seen in pairs:
        argument.says(f"{says(shown)}, and {says(seen)}")
    for sentence in truth.says:
        argument.says(sentence)
    cite_beside(argument, now.window)
    argument.against("a real load: seen otherwise there is another")
    return Confidence.LIKELY


def _for_long(fact: Fact) -> bool:
    written = durations_in(fact.raw) if fact.value is None else ()
    seconds = sum(each for _, each in written)
    if fact.unit is Unit.SECONDS and fact.value is not None:
        seconds = fact.value
    elif fact.value is not None and re.search(r"\bmin(utes)?$", plain(fact.key)):
        seconds = 60.0 * fact.value
    return seconds >= _STILL_SECONDS


def _pairs(facts: tuple[Fact, ...]) -> list[tuple[Fact, Fact]]:
    """What is exported beside what is seen by hand, of the same words otherwise, far apart."""
    found = []
    for one, two in itertools.permutations(facts[-MOST_FACTS:], 2):
        shown, seen = plain(one.key), plain(two.key)
        is_pair = re.search(rf"\b({_EXPORTED})\b", shown) and re.search(rf"\b({_BY_HAND})\b", seen)
        if not is_pair or one.unit is not two.unit or one.at != two.at:
            continue
        if _subject(shown, _EXPORTED) != _subject(seen, _BY_HAND):
            continue
        high, low = number_of(one), number_of(two)
        if high is None or low is None or high == low:
            continue
        if max(high, low) >= _APART * min(high, low):
            found.append((one, two))
    return found


def _subject(key: str, whose: str) -> str:
    return " ".join(sorted(_FILLERS.sub(" ", re.sub(rf"\b({whose})\b", " ", key)).split()))
