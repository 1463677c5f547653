"""Replicas as processes of this machine."""

from pathlib import Path

from controlplane.hooks import Launcher, hookimpl

NAME = "local"


@hookimpl
def pilothouse_create_launcher(name: str, state_dir: Path) -> Launcher | None:
    """The launcher of local processes, with all it knows under `state_dir`."""
    if name != NAME:
        return None
    from pilothouse_local.launcher import LocalLauncher

    return LocalLauncher(state_dir)
