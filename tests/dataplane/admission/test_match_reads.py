"""What an expression reads is never found to be less than it is."""

import pytest

from dataplane.admission.match_reads import MatchReads, reads_of


@pytest.mark.parametrize(
    ("expression", "tenant", "fields", "headers"),
    [
        ('tenant.tier == "gold"', {"tier"}, set(), set()),
        ('tenant["ti" + "er"] == "gold"', {"name", "tier"}, set(), set()),
        (
            "request.stream && request.num_prompt_tokens > 5",
            set(),
            {"stream", "num_prompt_tokens"},
            set(),
        ),
        ('request.headers["x-job"] == "nightly"', set(), set(), {"x-job"}),
        (
            "has(request.headers.absent) || request . headers['b'] == ''",
            set(),
            set(),
            {"absent", "b"},
        ),
        ('"x-job" in request.headers && tenant.name == "a"', {"name"}, set(), {"x-job"}),
        ('tenant.tier == "a" || ("x" in request.headers)', {"tier"}, set(), {"x"}),
        ('"a" in request.headers["b"]', set(), set(), {"b"}),
    ],
)
def test_names_are_found(
    expression: str, tenant: set[str], fields: set[str], headers: set[str]
) -> None:
    expected = MatchReads(frozenset(tenant), frozenset(fields), frozenset(headers))
    assert reads_of([expression]) == expected


@pytest.mark.parametrize(
    "expression",
    [
        'request.headers["x-" + "job"] == "nightly"',
        '"x-" + "job" in request.headers',
        "request.headers.exists(name, name.startsWith('x-'))",
        "request.headers.size() > 3",
        "[request.headers].exists(each, each['a'] == '')",
        'request.headers[r"a"] == ""',
        "request.headers['x\\x2djob'] == 'nightly'",
    ],
)
def test_headers_by_a_computed_name_may_be_any(expression: str) -> None:
    assert reads_of([expression]).headers is None


@pytest.mark.parametrize(
    "expression",
    [
        'request["mo" + "del"] == "m"',
        "[request].exists(each, each.model == 'm')",
        "dyn(request).stream",
        "request.// of whom?\nmodel == 'm'",
        "request.`model` == 'm'",
    ],
)
def test_a_request_taken_as_a_whole_may_be_read_wholly(expression: str) -> None:
    reads = reads_of(["tenant.tier == 'a'", expression])

    assert (len(reads.fields), reads.headers, reads.is_told_by_few_values) == (4, None, False)


def test_what_is_not_read_is_not_handed_on() -> None:
    reads = reads_of(['request.headers["a"] == "1"', '"b" in request.headers'])

    assert reads.select({"a": "1", "c": "3"}) == {"a": "1"}
