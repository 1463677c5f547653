"""Alerts about the rules of a contract, as a real evaluator of PromQL fires them."""

from pathlib import Path

import pytest

from controlplane.runbooks import runbook_names
from controlplane.slo.prometheus.contract_alerts import (
    CONTRACT_UNSEEN,
    RULES_OUTDATED,
    watched_groups,
)
from controlplane.slo.prometheus.rules import AlertRule, render
from controlplane.slo.promised import promises_of
from tests.controlplane.slo.prometheus.promtool import LINKS, check, contract, firing_alerts

_SPEC = contract([{"signal": "availability", "for": "99.9%"}])
_FILES = ["chat.yml"]


def _enforced(revision: str, gateway: str = "a:8701", deployment: str = "chat") -> str:
    return (
        f'pilothouse_gateway_contract{{instance="{gateway}",deployment="{deployment}",'
        f'contract_revision="{revision}"}}'
    )


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Of the revision chat@7, and an alert that always fires: of none promtool says nothing."""
    watched = watched_groups(list(promises_of("chat", "chat@7", _SPEC)), LINKS)
    (tmp_path / "chat.yml").write_text(render(watched.groups, ["Made for a test."]))
    always = "groups: [{name: always, rules: [{alert: Always, expr: vector(1)}]}]"
    (tmp_path / "always.yml").write_text(always)
    return tmp_path


@pytest.mark.parametrize(
    ("series", "firing"),
    [
        ({_enforced("chat@7"): "1x160"}, set()),
        ({_enforced("chat@7"): "1x160", _enforced("chat@8", "b:8701"): "1x160"}, {RULES_OUTDATED}),
        (
            {_enforced("chat@7"): "1x80 stale _x79", _enforced("chat@8"): "_x81 1x79"},
            {RULES_OUTDATED},
        ),
        ({_enforced("chat@7"): "1x150 stale _x9", _enforced("chat@8"): "_x151 1x9"}, set()),
        ({_enforced("chat@7"): "1x80 stale _x79"}, {CONTRACT_UNSEEN}),
        ({_enforced("chat@7"): "1x150 stale _x9"}, set()),
        ({_enforced("batch@3", deployment="batch"): "1x160"}, {CONTRACT_UNSEEN}),
    ],
    ids=[
        "the revision of the rules",
        "two revisions for long",
        "another revision for long",
        "another revision since a moment",
        "no gateway for long",
        "no gateway since a moment",
        "another deployment alone",
    ],
)
def test_rules_say_when_nobody_counts_for_them_or_they_are_of_another_revision(
    rules: Path, series: dict[str, str], firing: set[str]
) -> None:
    found = firing_alerts(rules, [*_FILES, "always.yml"], series, at="40m")
    assert found == {"Always"} | firing


def test_they_are_what_prometheus_takes_and_lead_to_runbooks_that_are_there(rules: Path) -> None:
    check(rules, _FILES)
    watched = watched_groups(list(promises_of("chat", "chat@7", _SPEC)), LINKS)
    alerts = [rule for rule in watched.groups[-1].rules if isinstance(rule, AlertRule)]
    assert len(alerts) == 2
    for alert in alerts:
        assert alert.annotations["runbook_url"].rpartition("/")[2] in runbook_names()
        assert alert.annotations["contract_revision"] == "chat@7"


def test_no_two_deployments_have_rules_in_a_group_of_one_name(tmp_path: Path) -> None:
    groups = [
        group
        for name in ("chat", "chat-budget", "chat-contract")
        for group in watched_groups(list(promises_of(name, "chat@7", _SPEC)), LINKS).groups
    ]
    (tmp_path / "all.yml").write_text(render(groups, ["Made for a test."]))
    check(tmp_path, ["all.yml"])


def test_without_a_promise_nothing_is_watched() -> None:
    assert watched_groups([], LINKS).groups == ()
