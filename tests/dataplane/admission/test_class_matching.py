"""Classes are found in order, however their expressions are grouped, and whichever of them fail."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.admission.class_matching import ClassMatcher, MatchRefusedError, RequestFacts
from dataplane.policy import ClassPolicy, TenantPolicy

GOLD = TenantPolicy(name="acme", tier="gold")
FACTS = RequestFacts(
    model="m", stream=True, num_prompt_tokens=10, max_output_tokens=20, headers={"x-job": "nightly"}
)
# Each with whether it holds of FACTS and GOLD.
MATCHES = {
    "true": True,
    "false": False,
    "1 + request.num_prompt_tokens == 11": True,
    'tenant.tier == "gold" // of those who pay': True,
    'request.headers["x-absent"] == "1"': False,
    "request.max_output_tokens / 0 == 1": False,
    "request.model": False,
    'has(request.headers.absent) || request.headers["x-job"] == "nightly"': True,
}


def classes_of(matches: list[str], has_rest: bool) -> list[ClassPolicy]:
    named = [ClassPolicy(name=f"c{index}", match=match) for index, match in enumerate(matches)]
    return [*named, ClassPolicy(name="rest")] if has_rest else named


@given(st.lists(st.sampled_from(sorted(MATCHES)), max_size=20), st.booleans())
def test_the_first_class_that_holds_takes_the_request(matches: list[str], has_rest: bool) -> None:
    found = ClassMatcher(classes_of(matches, has_rest)).find(GOLD, FACTS)

    first = next((f"c{i}" for i, match in enumerate(matches) if MATCHES[match]), None)
    assert (found.name if found else None) == (first or ("rest" if has_rest else None))


def test_an_expression_as_deep_as_one_may_be_stands_beside_others() -> None:
    depth = 0
    while _compiles("(" * (depth + 1) + "true" + ")" * (depth + 1)):
        depth += 1
    deepest = "(" * depth + "true" + ")" * depth

    assert depth > 5
    found = ClassMatcher(classes_of(["false", deepest], has_rest=False)).find(GOLD, FACTS)
    assert found is not None
    assert found.name == "c1"


def _compiles(match: str) -> bool:
    try:
        ClassMatcher([ClassPolicy(name="c", match=match)])
    except MatchRefusedError:
        return False
    return True


@pytest.mark.parametrize("match", ["tenat.tier == 'gold'", "1 +", "tenant.tier", "'gold'"])
@pytest.mark.parametrize("has_rest", [False, True])
def test_an_expression_that_cannot_decide_is_refused_wherever_its_class_stands(
    match: str, has_rest: bool
) -> None:
    odd = ClassPolicy(name="odd", match=match)
    rest = [ClassPolicy(name="rest")] if has_rest else []

    with pytest.raises(MatchRefusedError, match=re.escape(f"class odd, match {match!r}: ")):
        ClassMatcher([*rest, odd])


def test_without_classes_nothing_is_found() -> None:
    assert ClassMatcher([]).find(GOLD, FACTS) is None


def test_what_was_found_of_one_request_is_not_taken_for_another() -> None:
    matches = ['tenant.tier == "gold" && request.stream', 'request.headers["x-job"] == "nightly"']
    matcher = ClassMatcher(classes_of(matches, has_rest=True))
    free = TenantPolicy(name="acme", tier="free")
    plain = msgspec.structs.replace(FACTS, stream=False, headers={})

    for _ in range(2):
        asked = [(GOLD, FACTS), (free, FACTS), (free, plain), (GOLD, plain)]
        found = [matcher.find(tenant, facts) for tenant, facts in asked]
        assert [each.name for each in found if each] == ["c0", "c1", "rest", "rest"]


def test_what_callers_make_up_is_not_remembered_without_bound() -> None:
    matcher = ClassMatcher(classes_of(['request.headers["x-job"] == "nightly"'], has_rest=True))

    for index in range(5000):
        headers = {"x-job": f"job {index}" if index % 2 else "j" * 1000 + str(index)}
        matcher.find(GOLD, msgspec.structs.replace(FACTS, headers=headers))

    assert 0 < matcher.num_remembered <= 4096


_EACH_PAIR = "request.headers.exists(a, request.headers.exists(b, a != b && a + b == '1'))"


def test_an_expression_that_takes_too_many_steps_of_a_request_does_not_hold() -> None:
    many = msgspec.structs.replace(FACTS, headers={f"x-{number}": "1" for number in range(150)})
    for matches in ([_EACH_PAIR], [_EACH_PAIR, 'tenant.tier == "gold"']):
        found = ClassMatcher(classes_of(matches, has_rest=True)).find(GOLD, many)
        assert found is not None
        assert found.name == ("rest" if len(matches) == 1 else "c1")


def test_an_expression_that_takes_too_many_steps_of_any_request_is_refused() -> None:
    ten = str(list(range(10)))
    endless = f"{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, a + b + c + d >= 0))))"

    with pytest.raises(MatchRefusedError, match="it takes too many steps for any request"):
        ClassMatcher([ClassPolicy(name="endless", match=endless)])
