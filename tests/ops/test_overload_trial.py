"""What the overload bench counts, and that its documents are what they are said to be."""

from dataclasses import replace

import pytest

from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.yaml_reader import read_yaml
from dataplane.policy import AdmissionPolicyTerms
from ops.overload.conditions import SCENARIO, Conditions, adaptive_terms, static_terms
from ops.overload.trial import run_trial


def test_the_example_scenario_has_the_policy_to_start_with() -> None:
    [source], problems = read_yaml(SCENARIO.name, SCENARIO.read_text())
    document, more = read_scenario(source, SCENARIO.parent)
    assert not [*problems, *more]
    assert document is not None
    revision = document.fleet.policy.revision
    assert document.fleet.policy == replace(adaptive_terms(), revision=revision)


def test_static_limits_know_nothing_of_time_and_the_same_classes() -> None:
    static = static_terms(max_active=8, max_queue=2)
    assert [each.name for each in static.classes] == ["interactive", "batch"]
    for each in static.classes:
        assert each.max_queue == 2
        assert (each.deadline_seconds, each.first_token_seconds) == (None, None)
        assert each.aging_per_second == 0
    assert (static.max_active_per_replica, static.tpot_seconds) == (8, None)


@pytest.mark.parametrize("policy", [static_terms(8, 2), adaptive_terms()])
def test_everybody_is_in_one_place_and_whoever_gets_no_answer_is_told(
    policy: AdmissionPolicyTerms,
) -> None:
    run = Conditions(
        shape="steady",
        requests_per_second=30,
        seed=1,
        counts_from=5,
        counted_seconds=10,
        last_seconds=5,
    )
    outcome = run_trial(run, policy)
    assert outcome.num_offered == outcome.num_rejected + outcome.num_admitted
    assert outcome.num_rejected > 0
    num_told = sum(outcome.answers.num_by_kind.values())
    assert outcome.num_answered + num_told == outcome.num_offered
    assert outcome.answers.num_unanswered == 0
    assert 0 < outcome.attainment < 1
    assert outcome == run_trial(run, policy)
