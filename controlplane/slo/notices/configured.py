"""Notifiers by name, as they are configured: the built-in kinds, and those of plugins."""

from collections.abc import Mapping

import pluggy

from controlplane import hooks
from controlplane.hooks import Notifier
from controlplane.slo.alerting_settings import BUILT_IN_KINDS, NotifierPlan
from controlplane.slo.notices import built_in
from dataplane.plugins import PluginError, PluginGroup, load_plugins


def create_notifiers(plans: tuple[NotifierPlan, ...]) -> Mapping[str, Notifier]:
    """By name. Raises ValueError for a name that is taken twice or a file that cannot be used, and
    PluginError for a kind that nobody makes."""
    made: dict[str, Notifier] = {}
    for plan in plans:
        if plan.name in made:
            raise ValueError(f"two notifiers are called {plan.name}: rename one of them")
        made[plan.name] = _create(plan)
    return made


def _create(plan: NotifierPlan) -> Notifier:
    found = _ask(_built_in(), plan)
    if found is None:
        found = _ask(_load(plan), plan)
    if found is None:
        raise PluginError(f"plugin {plan.kind!r} is installed, but it makes no notifier")
    return found


def _ask(manager: pluggy.PluginManager, plan: NotifierPlan) -> Notifier | None:
    made: Notifier | None = manager.hook.pilothouse_create_notifier(kind=plan.kind, file=plan.file)
    return made


def _built_in() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(built_in)
    return manager


def _load(plan: NotifierPlan) -> pluggy.PluginManager:
    try:
        return load_plugins(PluginGroup.CONTROLPLANE, [plan.kind], hooks, hooks.PROJECT)
    except PluginError as error:
        built_ins = ", ".join(BUILT_IN_KINDS)
        raise PluginError(f"notifier {plan.name}: {error}. Built in are {built_ins}") from error
