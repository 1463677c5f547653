"""Engines and launchers by name: plugins are imported when a deployment first asks for one."""

from pathlib import Path

import pluggy

from controlplane import hooks
from controlplane.hooks import Launcher
from dataplane.engine import EngineProcess
from dataplane.plugins import PluginError, PluginGroup, load_plugins


class InstalledPlugins:
    """What the operator has loaded so far. Used from one thread."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._processes: dict[str, EngineProcess | None] = {}
        self._launchers: dict[str, Launcher] = {}

    def find_engine_process(self, engine: str) -> EngineProcess | None:
        """How replicas of `engine` are started; None when it is only ever attached.

        Raises PluginError when no such engine is installed.
        """
        if engine not in self._processes:
            plugin = _load(engine)
            self._processes[engine] = plugin.hook.pilothouse_create_engine_process(engine=engine)
        return self._processes[engine]

    def get_launcher(self, name: str) -> Launcher:
        """Raises PluginError when no such launcher is installed."""
        if name not in self._launchers:
            found: Launcher | None = _load(name).hook.pilothouse_create_launcher(
                name=name, state_dir=self._state_dir
            )
            if found is None:
                raise PluginError(f"plugin {name!r} is installed, but it is no launcher")
            self._launchers[name] = found
        return self._launchers[name]


def _load(name: str) -> pluggy.PluginManager:
    return load_plugins(PluginGroup.CONTROLPLANE, [name], hooks, hooks.PROJECT)
