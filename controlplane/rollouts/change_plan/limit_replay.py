"""Which limits recorded traffic would have met: the same requests, by other bounds.

What was recorded is taken as it came: had one been refused, another would have waited for less, and
that is not reckoned. Tokens per minute and requests at once are told by the gateway's own account
of tenants (`dataplane.leases.tenant_use`), one for each gateway, as there. Requests that were
refused then are charged with their prompts alone: nobody knows what they would have generated.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence

from controlplane.rollouts.change_plan.recorded import RecordedRequest
from dataplane.leases.tenant_use import TenantUse, TokenLease
from dataplane.policy import AdmissionPolicyTerms

Met = Counter[tuple[str, str]]
"""Requests by limit and by whom it bounds: a tenant, or a class."""

TOKENS_PER_MINUTE = "tokens_per_minute"
MAX_CONCURRENT = "max_concurrent"
MAX_QUEUE = "max_queue"
DEADLINE = "deadline"


def replay_limits(
    terms: AdmissionPolicyTerms, requests: Sequence[RecordedRequest], classes: Sequence[str]
) -> Met:
    """`classes` are those of the requests by these terms; "" for one that no class takes."""
    met: Met = Counter()
    by_gateway: dict[str, list[tuple[RecordedRequest, str]]] = defaultdict(list)
    for request, name in zip(requests, classes, strict=True):
        if name:
            by_gateway[request.gateway_id].append((request, name))
    for own in by_gateway.values():
        met += _meet_tenant_limits(terms, own)
        met += _meet_waiting_limits(terms, own)
    return met


class _Clock:
    """Seconds; where the replay is."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _meet_tenant_limits(
    terms: AdmissionPolicyTerms, own: Sequence[tuple[RecordedRequest, str]]
) -> Met:
    met: Met = Counter()
    clock = _Clock()
    use = TenantUse(clock)
    ends: list[tuple[float, int, TokenLease]] = []
    for index, (request, _) in enumerate(own):
        arrived = request.arrived_at_unix_ns / 1e9
        while ends and ends[0][0] <= arrived:
            clock.now, _, ended = heapq.heappop(ends)
            ended.release()
        clock.now = arrived
        num_tokens = (request.num_prompt_tokens or 0) + (request.num_output_tokens or 0)
        taken = use.try_take(request.tenant, num_tokens, terms.limits_of(request.tenant))
        if isinstance(taken, TokenLease):
            heapq.heappush(ends, (arrived + (request.ended or 0.0), index, taken))
        else:
            limit = TOKENS_PER_MINUTE if taken.limit == "tokens" else MAX_CONCURRENT
            met[limit, request.tenant] += 1
    return met


def _meet_waiting_limits(
    terms: AdmissionPolicyTerms, own: Sequence[tuple[RecordedRequest, str]]
) -> Met:
    met: Met = Counter()
    classes = {each.name: each for each in terms.classes}
    waiting: dict[str, list[float]] = defaultdict(list)
    for request, name in own:
        bounds = classes[name]
        arrived = request.arrived_at_unix_ns / 1e9
        line = waiting[name]
        while line and line[0] <= arrived:
            heapq.heappop(line)
        waited = request.scheduled
        if len(line) >= bounds.max_queue and waited:
            met[MAX_QUEUE, name] += 1
        if waited is not None:
            heapq.heappush(line, arrived + waited)
            if bounds.deadline_seconds is not None and waited > bounds.deadline_seconds:
                met[DEADLINE, name] += 1
    return met
