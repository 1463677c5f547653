"""What the newest records of a file tell of callers and of the contract."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.records.ended_request import EndedRequest
from controlplane.diagnosis.sources.records.ending_facts import (
    SENT,
    SINCE_SECONDS,
    facts_of_endings,
    sends_more,
)
from controlplane.diagnosis.sources.records.request_facts import OWN_TENANTS, facts_of_requests
from controlplane.diagnosis.sources.records.span import Span
from controlplane.store.minute_endings import (
    DISPOSITION_PREFIX,
    GOOD,
    INPUT_TOKENS,
    JUDGED,
    OFFERED,
)

_STALL_SECONDS = 30.0
_STALLS = f"answers_with_stalls_over_{_STALL_SECONDS:g}_s"
_TIMES_LONGER = 10.0
_SEVERAL = 2
"""One is an accident."""
_MOST_SINGLE = 500
"""Of which each is looked at: enough for shares."""


def facts_of_late(requests: Sequence[EndedRequest], span: Span) -> tuple[Fact, ...]:
    """Of requests in order of arrival: the last minutes until which all that arrived is known; of
    answers that stood still, all."""
    at = span.known_until if span.has_course else span.end
    since = at - SINCE_SECONDS
    own = [each for each in requests if not (each.tenant or "").startswith(OWN_TENANTS)]
    late = [each for each in own if since <= each.arrived_at <= at]
    ended = _by_measure(late)
    before = _by_measure(each for each in own if each.arrived_at < since)
    grown = {
        measure: sends_more(ended[measure], before[measure], since - span.start) for measure in SENT
    }
    stalls = _num_stalls(requests)
    return (
        *facts_of({_STALLS: stalls} if stalls >= _SEVERAL else {}, at, is_observed=True),
        *facts_of_endings(ended, at, is_one_sending_more=grown[OFFERED]),
        *facts_of_requests(late[-_MOST_SINGLE:], at, is_one_sending_more=any(grown.values())),
    )


def _num_stalls(requests: Sequence[EndedRequest]) -> int:
    """Answers that took far longer for each token than those of others, and stood still for long in
    all: what a replica or a reader that stops leaves, too rarely to be seen in any percentile."""
    paces = sorted(each.tpot for each in requests if each.tpot is not None)
    if not paces:
        return 0
    middle = paces[len(paces) // 2]
    return sum(
        each.tpot > _TIMES_LONGER * middle
        and (each.tpot - middle) * (each.num_output_tokens - 1) > _STALL_SECONDS
        for each in requests
        if each.tpot is not None and each.num_output_tokens is not None
    )


def _by_measure(requests: Iterable[EndedRequest]) -> defaultdict[str, Counter[str]]:
    """How much of each measure each tenant has, as the store counts it."""
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in requests:
        tenant = each.tenant or ""
        counted[OFFERED][tenant] += 1
        counted[f"{DISPOSITION_PREFIX}{each.disposition}"][tenant] += 1
        if each.scheduled is not None and each.num_prompt_tokens is not None:
            counted[INPUT_TOKENS][tenant] += each.num_prompt_tokens
        if each.in_contract is not None:
            counted[JUDGED][tenant] += 1
            counted[GOOD][tenant] += each.in_contract
    return counted
