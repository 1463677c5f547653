"""CEL expressions are checked where they are written, not when a request meets them."""

import pytest

from controlplane.specs.match_expression import MatchError, check_match
from dataplane.enforced_snapshot import compile_snapshot
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, DeploymentPolicy, Snapshot

GOOD = [
    'tenant.tier == "gold"',
    'tenant.name in ["acme", "globex"] && request.stream',
    "request.num_prompt_tokens + request.max_output_tokens < 1000",
    'request.model.startsWith("smol") || request.headers["x-class"] == "batch"',
    '"x-class" in request.headers',
    "true",
]


@pytest.mark.parametrize("expression", GOOD)
def test_every_declared_field_can_be_used(expression: str) -> None:
    assert check_match(expression) == expression


@pytest.mark.parametrize("expression", GOOD)
def test_what_is_accepted_here_compiles_in_the_gateway(expression: str) -> None:
    request_class = ClassPolicy(name="a", match=expression)
    terms = AdmissionPolicyTerms(revision="chat@1", classes=(request_class,))
    deployment = DeploymentPolicy(
        name="chat",
        model_name="m",
        model_revision="m@1",
        engine_config_revision="e@1",
        tokenizer_artifact=None,
        max_model_len=None,
        policy=terms,
        contract=None,
        replicas=(),
    )

    compile_snapshot(Snapshot(version=1, deployments=(deployment,)))


def test_a_misspelt_field_names_the_right_one_and_the_place() -> None:
    with pytest.raises(MatchError, match=r"did you mean tenant\.tier\?") as raised:
        check_match('request.stream &&\n  tenant.teir == "gold"')

    assert (raised.value.line, raised.value.column) == (2, 9)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("tenant.tier == 5", "no matching overload"),
        ("tenant.tier", "gives STRING where true or false is needed"),
        ('tenant.tier = "gold"', "Syntax error"),
        ("", "Syntax error"),
        ("tenant", "there is no 'tenant'"),
        ("request.prompt == 'x'", "there is no 'request.prompt'"),
        ("(" * 300 + "true" + ")" * 300, "recursion"),
        ("true || " * 1000 + "true", "longer than 4096"),
    ],
)
def test_an_expression_that_cannot_hold_is_refused(expression: str, what: str) -> None:
    with pytest.raises(MatchError, match=what):
        check_match(expression)
