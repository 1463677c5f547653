"""All rules that a process applies: the built-in ones and those of named plugins."""

from collections.abc import Iterable

from controlplane import hooks
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules import BUILT_IN_RULES
from dataplane.plugins import PluginError, PluginGroup, load_plugins


def load_rules(plugin_names: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Those of plugins stand first: who wrote one for their own house knows more of it.

    Raises PluginError for a plugin that is not there, cannot be used, has no rules, or brings an id
    that another rule has.
    """
    added: list[Rule] = []
    for name in dict.fromkeys(plugin_names):
        manager = load_plugins(PluginGroup.CONTROLPLANE, [name], hooks, hooks.PROJECT)
        brought = [rule for rules in manager.hook.pilothouse_diagnosis_rules() for rule in rules]
        if not brought:
            raise PluginError(f"plugin {name!r} brings no rules of diagnosis: leave it out")
        added += brought
    rules = (*added, *BUILT_IN_RULES)
    _check_ids(rules)
    return rules


def _check_ids(rules: Iterable[Rule]) -> None:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise PluginError(f"two rules have the id {rule.id!r}: rename the plugin's own")
        seen.add(rule.id)
