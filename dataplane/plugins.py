"""Finding and loading plugins: by entry point, by name, and never in silence.

Each process has one entry-point group, so a gateway never imports a launcher and the
control plane never imports torch. Only the plugins that the configuration names are
imported; the others are listed, and a broken one that nobody uses harms nobody.
pluggy itself passes over a misspelt hook and a name taken twice, so both are checked
here and stop the start.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import pluggy


class PluginGroup(StrEnum):
    """The entry-point group of each process that loads plugins."""

    GATEWAY = "pilothouse.gateway"
    REPLICA = "pilothouse.replica"
    CONTROLPLANE = "pilothouse.controlplane"


class PluginError(Exception):
    """A plugin cannot be used; the message says which one, why, and what to do."""


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One installed plugin, imported or not."""

    group: PluginGroup
    name: str
    target: str
    distribution: str
    version: str


def list_plugins(group: PluginGroup) -> list[PluginInfo]:
    """Every installed plugin of `group`, by name, without importing any."""
    return [
        PluginInfo(
            group=group,
            name=point.name,
            target=point.value,
            distribution=point.dist.name if point.dist else "unknown",
            version=point.dist.version if point.dist else "unknown",
        )
        for point in sorted(entry_points(group=group), key=lambda point: point.name)
    ]


def load_plugins(
    group: PluginGroup, names: Iterable[str], hookspecs: ModuleType, project: str
) -> pluggy.PluginManager:
    """A plugin manager with exactly the plugins in `names` registered.

    Raises PluginError for an unknown name, a name that two distributions claim, a plugin
    that fails to import, and a plugin that implements a hook nobody specified.
    """
    points_by_name = _points_by_name(group)
    manager = pluggy.PluginManager(project)
    manager.add_hookspecs(hookspecs)
    for name in dict.fromkeys(names):
        manager.register(_load(points_by_name, group, name), name=name)
    _check_hooks(manager, hookspecs)
    return manager


def _points_by_name(group: PluginGroup) -> dict[str, EntryPoint]:
    points_by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = points_by_name.setdefault(point.name, point)
        if (other.value, _owner(other)) != (point.value, _owner(point)):
            raise PluginError(
                f"plugin name {point.name!r} in group {group} is taken twice: by "
                f"{other.value} of {_owner(other)} and by {point.value} of {_owner(point)}; "
                f"uninstall one of them"
            )
    return points_by_name


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown distribution"


def _load(points_by_name: dict[str, EntryPoint], group: PluginGroup, name: str) -> object:
    point = points_by_name.get(name)
    if point is None:
        near = difflib.get_close_matches(name, points_by_name, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        valid = ", ".join(sorted(points_by_name)) or "none"
        raise PluginError(f"no plugin {name!r} in group {group}{hint} Installed: {valid}")
    try:
        plugin: object = point.load()
    except Exception as error:
        raise PluginError(
            f"plugin {name!r} ({point.value} of {_owner(point)}) cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    return plugin


def _check_hooks(manager: pluggy.PluginManager, hookspecs: ModuleType) -> None:
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        valid = sorted(name for name in vars(hookspecs) if name.startswith("pilothouse_"))
        raise PluginError(
            f"plugin {manager.get_name(error.plugin)!r}: {error.args[-1]}. "
            f"Hooks that exist: {', '.join(valid)}"
        ) from error
