"""Rules of plugins: found by entry point, first in line, and refused where two share an id."""

import importlib
import pkgutil
from pathlib import Path

import pytest

from controlplane.diagnosis import rules as rooms
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rule_book import load_rules
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.window import Window
from dataplane.plugins import PluginError

_PLUGIN = """
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.hooks import hookimpl


def judge(window):
    return Verdict(confidence=Confidence.LIKELY, evidence=("the fan is loud",))


@hookimpl
def pilothouse_diagnosis_rules():
    return [
        Rule(
            id="{id}",
            mechanism=Mechanism.HOST_BOUND,
            judge=judge,
            needs=("ears",),
            told_apart="by listening",
            remedy="Clean the fan.",
            hides="A quiet fan hides a broken one.",
        )
    ]
"""


def install(folder: Path, module: str, rule_id: str) -> None:
    (folder / f"{module}.py").write_text(_PLUGIN.replace("{id}", rule_id))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pilothouse.controlplane]\n{module} = {module}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_without_plugins_the_built_in_rules_apply_each_with_an_id_of_its_own() -> None:
    assert load_rules() == BUILT_IN_RULES
    ids = [rule.id for rule in BUILT_IN_RULES]
    assert len(set(ids)) == len(ids)


def test_a_rule_that_a_module_makes_has_its_place_in_the_order() -> None:
    modules = pkgutil.walk_packages(rooms.__path__, f"{rooms.__name__}.")
    made = {
        each.id
        for module in modules
        for each in vars(importlib.import_module(module.name)).values()
        if isinstance(each, Rule)
    }
    assert made == {rule.id for rule in BUILT_IN_RULES}


def test_every_mechanism_has_a_rule_and_every_rule_says_what_it_is_told_apart_from() -> None:
    named = {rule.mechanism for rule in BUILT_IN_RULES}
    assert named == set(Mechanism) - {Mechanism.CANNOT_TELL}
    for rule in BUILT_IN_RULES:
        assert rule.needs, rule.id
        for words in (rule.told_apart, rule.remedy, rule.hides):
            assert words.endswith("."), rule.id
        assert rule.mechanism not in rule.explains, rule.id


def test_a_plugins_rule_is_applied_before_the_built_in_ones(site: Path) -> None:
    install(site, "loud_fan", "loud-fan")
    rules = load_rules(["loud_fan"])
    assert rules[0].id == "loud-fan"
    assert rules[1:] == BUILT_IN_RULES
    diagnosis = diagnose(Window(start=0, end=60), rules)
    assert diagnosis.mechanism is Mechanism.HOST_BOUND
    assert diagnosis.findings[0].verdict.evidence == ("the fan is loud",)


def test_an_id_that_is_taken_is_refused_by_name(site: Path) -> None:
    install(site, "copycat", "cache-thrash")
    with pytest.raises(PluginError, match="two rules have the id 'cache-thrash'"):
        load_rules(["copycat"])


def test_a_plugin_without_rules_and_one_that_is_not_there_are_refused() -> None:
    with pytest.raises(PluginError, match="'local' brings no rules"):
        load_rules(["local"])
    with pytest.raises(PluginError, match="no plugin 'nobodys'"):
        load_rules(["nobodys"])
