"""At how many streams or requests at once a figure was measured, as its key says it."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import plain

_MANY = (
    r"(?:seats|slots|streams?|requests?|reqs|users?|clients?|callers|concurrent|concurrency"
    r"|parallel|in ?flight|seqs|sequences|sessions|threads|connections|at once|workers)"
)
_LOAD = re.compile(
    rf"\b(\d+) {_MANY}\b"
    rf"|\b(?:{_MANY}|batch(?: size)?|bs|bsz|c|np|x|with|at) ?(\d+)\b(?! ?(?:ms|s|k|bit))"
)


def load_of(fact: Fact) -> float | None:
    """`tokens_per_s_with_16_seats` at 16, `tps_bs32` at 32; None where the key does not say."""
    if fact.load is not None:
        return fact.load
    found = _LOAD.search(plain(fact.key))
    return float(found[1] or found[2]) if found is not None else None
