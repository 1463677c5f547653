"""Recorded requests find their class by another policy, and what cannot be told is not guessed."""

import pytest

from controlplane.rollouts.change_plan.reclassed import (
    NO_CLASS,
    RuleReach,
    RuleVerdict,
    reclass,
    rule_reaches,
)
from dataplane.policy import TenantPolicy
from tests.controlplane.rollouts.change_plan.policies import (
    FREE,
    GOLD,
    HAS_HEADER,
    IS_GOLD,
    IS_LONG,
    TENANTS,
    change,
    request,
    terms,
)

REST = ("rest", None)


def reaches(before: object, after: object, *requests: object) -> dict[str, RuleReach]:
    changed = change(before, after)  # type: ignore[arg-type]
    found = reclass(changed, requests)  # type: ignore[arg-type]
    return {each.request_class: each for each in rule_reaches(changed, found)}


def test_a_new_rule_takes_whom_it_is_about() -> None:
    after = terms(("vip", IS_GOLD), REST)

    found = reclass(change(terms(REST), after), [request(GOLD), request(FREE)])

    assert found.classes == ["vip", "rest"]


def test_nobody_takes_what_no_rule_takes() -> None:
    found = reclass(change(terms(REST), terms(("vip", IS_GOLD))), [request(FREE)])

    assert found.classes == [NO_CLASS]


def test_what_reads_a_header_is_unknown() -> None:
    found = reclass(change(terms(REST), terms(("batch", HAS_HEADER), REST)), [request()])

    assert found.classes == [None]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (f"{IS_GOLD} || {HAS_HEADER}", "new"),
        (f"{HAS_HEADER} || {IS_GOLD}", "new"),
        (f'tenant.tier == "silver" && {HAS_HEADER}', "rest"),
        (f"{IS_GOLD} && {HAS_HEADER}", None),
        ("has(request.headers)", None),
        ("request.stream", None),
        ('request.model == "chat"', None),
    ],
)
def test_what_is_known_decides_where_it_can(match: str, expected: str | None) -> None:
    found = reclass(change(terms(REST), terms(("new", match), REST)), [request()])

    assert found.classes == [expected]


def test_a_model_called_as_its_deployment_is_what_callers_asked_for() -> None:
    after = terms(("new", 'request.model == "chat"'), REST)

    found = reclass(change(terms(REST), after), [request(model="chat")])

    assert found.classes == ["new"]


def test_what_was_decided_tells_of_rules_that_read_headers() -> None:
    before = terms(("batch", HAS_HEADER), REST)
    after = terms(("vip", IS_GOLD), ("batch", HAS_HEADER), REST)

    found = reclass(
        change(before, after), [request(FREE, "batch"), request(FREE, "rest"), request(GOLD)]
    )

    assert found.classes == ["batch", "rest", "vip"]


def test_what_another_revision_decided_tells_nothing() -> None:
    before = terms(("batch", HAS_HEADER), REST)

    found = reclass(change(before, before), [request(FREE, "batch", policy="chat@7")])

    assert found.classes == [None]


def test_a_tenant_that_would_be_met_otherwise_is_asked_anew() -> None:
    both = terms(("vip", IS_GOLD), REST)
    promoted = TENANTS | {"rival": TenantPolicy(name="rival", tier="gold")}

    found = reclass(change(both, both, promoted), [request(FREE, "rest")])

    assert found.classes == ["vip"]


def test_a_rule_that_fires_says_how_often() -> None:
    found = reaches(terms(REST), terms(("vip", IS_GOLD), REST), request(), request(FREE))

    assert found["vip"].verdict is RuleVerdict.FIRES
    assert (found["vip"].num_taken, found["vip"].num_holding) == (1, 1)
    assert "rest" not in found


def test_a_rule_behind_one_that_takes_all_is_shadowed() -> None:
    after = terms(("all", None), ("vip", IS_GOLD))

    found = reaches(terms(("all", None)), after, request())

    assert found["vip"].verdict is RuleVerdict.SHADOWED


def test_a_rule_that_holds_for_none_never_fires() -> None:
    found = reaches(terms(REST), terms(("long", IS_LONG), REST), request(prompt=1000))

    assert found["long"].verdict is RuleVerdict.NEVER


def test_without_traffic_nothing_is_known() -> None:
    found = reaches(terms(REST), terms(("long", IS_LONG), REST))

    assert found["long"].verdict is RuleVerdict.UNKNOWN


def test_a_rule_over_what_was_not_recorded_says_what_that_is() -> None:
    match = f"{HAS_HEADER} && request.max_output_tokens > 5"

    [found] = reaches(terms(REST), terms(("batch", match), REST), request()).values()

    assert found.verdict is RuleVerdict.UNKNOWN
    assert found.unrecorded == ("request.max_output_tokens", 'request.headers["x-batch"]')


def test_a_prompt_that_nobody_counted_makes_no_rule_false() -> None:
    found = reclass(change(terms(REST), terms(("long", IS_LONG), REST)), [request(prompt=None)])

    assert found.classes == [None]
