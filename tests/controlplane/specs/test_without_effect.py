"""What can have no effect is said, and never passed over in silence."""

import pytest

from controlplane.specs.documents import parse_documents
from controlplane.specs.without_effect import check_window
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    SERVICE,
    load,
)


def warnings(*texts: str) -> dict[str, str]:
    return {warning.key: warning.message for warning in load(*texts).warnings}


def test_an_alert_that_can_never_fire_is_said_with_its_place() -> None:
    loose = DESIGN_CONTRACT.replace("at_most: 40ms, for: 95%", "at_most: 40ms, for: 90%")
    [(place, what)] = warnings(MODEL, ENGINE, DESIGN_POLICY, loose, DEPLOYMENT).items()

    assert place == "spec.classes.interactive.objectives[1].for"
    assert "page_quick" in what


@pytest.mark.parametrize(
    ("boundary", "signal", "instead"),
    [("server", "max_itl", "chunk_gap"), ("engine", "chunk_gap", "max_itl")],
)
def test_an_objective_that_nothing_is_judged_on_is_said_with_the_one_that_is(
    boundary: str, signal: str, instead: str
) -> None:
    blind = DESIGN_CONTRACT.replace("boundary: server", f"boundary: {boundary}").replace(
        "{signal: availability, for: 99.9%}", f"{{signal: {signal}, at_most: 1s, for: 99%}}"
    )

    assert instead in warnings(blind)["spec.classes.interactive.objectives[2].signal"]


def test_an_alert_that_the_contract_turns_off_is_no_surprise() -> None:
    loose = DESIGN_CONTRACT.replace("at_most: 40ms, for: 95%", "at_most: 40ms, for: 90%")
    off = f"{loose}  alerting: {{off: [page_quick]}}\n"

    assert warnings(MODEL, ENGINE, DESIGN_POLICY, off, DEPLOYMENT) == {}


def test_a_contract_that_no_deployment_is_under_is_said_with_what_to_write() -> None:
    assert "`contract: chat`" in warnings(DESIGN_CONTRACT)["metadata.name"]
    assert "metadata.name" not in warnings(*SERVICE)


def test_a_contract_that_is_pinned_to_an_earlier_revision_changes_nothing() -> None:
    pinned = DEPLOYMENT.replace("contract: chat", "contract: chat@1")
    assert "chat to chat@1" in warnings(DESIGN_CONTRACT, pinned)["metadata.name"]
    follows = DEPLOYMENT.replace("{name: chat}", "{name: other}")
    assert "metadata.name" not in warnings(DESIGN_CONTRACT, pinned, follows)


def test_away_from_the_control_plane_nobody_knows_who_is_under_a_contract() -> None:
    assert parse_documents([("f0.yaml", DESIGN_CONTRACT)]).against(None).warnings == ()


def test_a_budget_longer_than_prometheus_keeps_is_said() -> None:
    long = DESIGN_CONTRACT.replace("window: 30d", "window: 90d")

    assert "35d" in warnings(DESIGN_POLICY, long)["spec.window"]


@pytest.mark.parametrize(("kept_days", "num_problems"), [(30, 0), (29, 1)])
def test_a_budget_longer_than_counts_are_kept_would_forget(
    kept_days: float, num_problems: int
) -> None:
    [item] = parse_documents([("f0.yaml", DESIGN_CONTRACT)]).loaded
    found = check_window(item, kept_days)

    assert [problem.key for problem in found] == ["spec.window"] * num_problems


@pytest.mark.parametrize(("window", "num_problems"), [("5m", 0), ("299s", 1)])
def test_a_budget_of_less_than_its_counts_are_summed_over_is_none(
    window: str, num_problems: int
) -> None:
    text = DESIGN_CONTRACT.replace("window: 30d", f"window: {window}")
    [item] = parse_documents([("f0.yaml", text)]).loaded
    assert [each.key for each in check_window(item, 400)] == ["spec.window"] * num_problems


def test_what_has_an_effect_gives_no_warning() -> None:
    policy = """\
kind: AdmissionPolicy
metadata: {name: chat}
spec:
  classes:
    - {name: interactive, match: 'tenant.tier == "gold"', priority: 1, max_queue: 2, deadline: 1s}
    - {name: batch}
  limits: {max_active_per_replica: 8}
"""

    assert warnings(policy) == {}
    assert "spec.replicas" not in warnings(*SERVICE)


def test_a_class_behind_one_that_takes_everything_is_never_reached() -> None:
    policy = "{kind: AdmissionPolicy, metadata: {name: p}, spec: {classes: [{name: a}, {name: b}]}}"

    assert warnings(policy) == {
        "spec.classes[1]": "no request reaches class b: a before it takes everything"
    }


def test_a_policy_without_a_class_for_the_rest_rejects_it() -> None:
    policy = """\
kind: AdmissionPolicy
metadata: {name: p}
spec: {classes: [{name: a, match: request.stream}]}
"""

    assert warnings(policy) == {
        "spec.classes": "no class takes everything: a request that none matches is rejected"
    }
