"""Recorded traffic by another policy: who moves, which limits are met, and what nobody can say."""

from controlplane.rollouts.change_plan.documents import ChangedField
from controlplane.rollouts.change_plan.limit_replay import (
    DEADLINE,
    MAX_CONCURRENT,
    MAX_QUEUE,
    TOKENS_PER_MINUTE,
    replay_limits,
)
from controlplane.rollouts.change_plan.reclassed import PolicyChange
from controlplane.rollouts.change_plan.recorded import RecordedRequest, RecordedTraffic
from controlplane.rollouts.change_plan.traffic import ClassMove, LimitMove, TrafficImpact, replay
from dataplane.policy import TenantLimits
from tests.controlplane.rollouts.change_plan.policies import (
    FREE,
    GOLD,
    HAS_HEADER,
    IS_GOLD,
    change,
    request,
    terms,
)

REST = ("rest", None)


def replayed(
    changed: PolicyChange, *requests: RecordedRequest, fields: tuple[str, ...] = ()
) -> TrafficImpact:
    traffic = RecordedTraffic(
        requests=requests, num_recorded=len(requests), since_unix_ns=0, until_unix_ns=1
    )
    return replay(
        changed,
        traffic,
        [ChangedField(path=path, kind="changed", before="1", after="2") for path in fields],
    )


def test_who_moves_is_told_by_tenant_and_class() -> None:
    changed = change(terms(REST), terms(("vip", IS_GOLD)))

    impact = replayed(changed, request(GOLD), request(GOLD), request(FREE))

    assert impact.class_moves == (
        ClassMove(tenant="acme", before="rest", after="vip", num_requests=2),
        ClassMove(tenant="rival", before="rest", after="", num_requests=1),
    )


def test_whose_class_nobody_knows_moves_nowhere() -> None:
    impact = replayed(change(terms(REST), terms(("batch", HAS_HEADER), REST)), request())

    assert impact.class_moves == ()
    assert impact.num_unclear == 1


def test_a_lower_bound_on_tokens_is_met_by_the_same_traffic() -> None:
    limits = {"acme": TenantLimits(tokens_per_minute=50)}
    changed = change(terms(REST), terms(REST, tenants=limits))

    impact = replayed(changed, *(request(at=each, prompt=20, output=5) for each in (0, 10, 20, 70)))

    # 25 tokens each: two fit into a minute, the third does not, the fourth comes later.
    assert impact.limit_moves == (LimitMove(limit=TOKENS_PER_MINUTE, of="acme", before=0, after=1),)


def test_each_gateway_has_an_account_of_its_own() -> None:
    limits = {"default": TenantLimits(max_concurrent=1)}
    met = replay_limits(
        terms(REST, tenants=limits),
        [
            request(at=0, ended=5.0),
            request(at=1, ended=5.0),
            request(at=1, ended=5.0, gateway="other"),
            request(at=6, ended=5.0),
        ],
        ["rest"] * 4,
    )

    assert met == {(MAX_CONCURRENT, "acme"): 1}


def test_a_shorter_queue_and_an_earlier_deadline_are_met() -> None:
    waiting = [request(at=each * 0.1, scheduled=2.0) for each in range(3)]

    met = replay_limits(terms(REST, max_queue=2, deadline_seconds=1.5), waiting, ["rest"] * 3)

    assert met == {(MAX_QUEUE, "rest"): 1, (DEADLINE, "rest"): 3}


def test_whom_no_class_takes_meets_no_limit() -> None:
    met = replay_limits(terms(REST, max_queue=0), [request()], [""])

    assert not met


def test_what_depends_on_the_load_is_said_to_be_unknown() -> None:
    fields = (
        "classes[rest].deadline",
        "classes[rest].first_token",
        "classes[rest].priority",
        "limits.kv.watermark",
        "overload",
        "tenants.acme.tokens_per_minute",
        "routing.policy",
    )

    impact = replayed(change(terms(REST), terms(REST)), request(), fields=fields)

    assert impact.not_replayed == (
        "classes[rest].first_token",
        "limits.kv.watermark",
        "overload",
        "routing.policy",
    )
