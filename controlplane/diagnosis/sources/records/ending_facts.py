"""What the counts of endings tell of callers and of the contract. Pure."""

from collections import Counter
from collections.abc import Mapping

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.store.minute_endings import (
    DISPOSITION_PREFIX,
    GOOD,
    INPUT_TOKENS,
    JUDGED,
    OFFERED,
)

SINCE_SECONDS = 180.0
"""How far back one look at the counts goes."""
SENT = (OFFERED, INPUT_TOKENS)
"""By these a caller is known to send more than before."""
TURNED_AWAY = frozenset({"rejected", "shed"})
_SHOWN = 8
_USUAL_SECONDS = 120.0
"""How long it must have been seen what is usual of a tenant."""
_LEAST_SENT = 10
"""Requests, or tokens: fewer are no flood, of a tenant who was never seen before either."""
_GROWN = 2.0
"""So many times what is usual is told of."""

ByMeasure = Mapping[str, Counter[str]]
"""Of each measure of `minute_endings`, how much each tenant has."""


def sends_more(sent: Counter[str], before: Mapping[str, int], seconds_before: float) -> bool:
    """Whether the tenant who sent most in the last `SINCE_SECONDS` sends much more than in the
    `seconds_before`. That one has most of the traffic is how most services are, and no finding; nor
    is anything known of a tenant when there was no time to learn what is usual."""
    if len(sent) < 2 or seconds_before < _USUAL_SECONDS:
        return False
    (tenant, number), *_ = sent.most_common(1)
    if number < _LEAST_SENT:
        return False
    return number / SINCE_SECONDS >= _GROWN * before.get(tenant, 0) / seconds_before


def facts_of_endings(ended: ByMeasure, at: float, *, is_one_sending_more: bool) -> tuple[Fact, ...]:
    """Of the last `SINCE_SECONDS`: who sends and who is refused, where one sends more requests than
    before, and how many missed their contract."""
    seconds = f"{SINCE_SECONDS:g}"
    known: dict[str, object] = {}
    if is_one_sending_more:
        known[f"calls_by_tenant_last_{seconds}_s"] = dict(ended[OFFERED].most_common(_SHOWN))
        turned_away: Counter[str] = sum(
            (ended.get(f"{DISPOSITION_PREFIX}{word}", Counter()) for word in sorted(TURNED_AWAY)),
            Counter(),
        )
        if turned_away:
            name = f"rejected_by_tenant_last_{seconds}_s"
            known[name] = dict(turned_away.most_common(_SHOWN))
    judged = ended.get(JUDGED, Counter()).total()
    if judged:
        missed = judged - ended.get(GOOD, Counter()).total()
        known[f"contract_missed_last_{seconds}_s"] = f"{missed} of {judged} requests"
    return facts_of(known, at, is_observed=True)
