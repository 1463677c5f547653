"""From a ReplicaSpec to an engine that is ready to step. Runs in the engine's thread, which
is the only one that ever touches the core."""

import os
from dataclasses import dataclass
from pathlib import Path

import pluggy

from dataplane import hooks
from dataplane.engine import ReplicaSpec
from dataplane.host.core import EngineCore
from dataplane.host.status import StatusFile
from dataplane.plugins import PluginError, PluginGroup, load_plugins
from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """A core that is loaded and warm, and what turns its ids into text."""

    core: EngineCore
    tokenizer: Tokenizer


def start_engine(spec: ReplicaSpec, status: StatusFile) -> StartedEngine:
    """Take the stages of a start one after the other, each measured in the status file.

    Raises OSError or ValueError for an artifact or settings that cannot work, PluginError
    for an engine that is not there, and whatever an engine that breaks raises.
    """
    with status.stage("acquire"):
        plugins = load_plugins(PluginGroup.REPLICA, [spec.engine], hooks, hooks.PROJECT)
        artifact = _find_artifact(spec)
        plugins.hook.pilothouse_acquire_artifact(spec=spec)
    with status.stage("load"):
        core = _create_core(plugins, spec)
        core.load()
        tokenizer = load_tokenizer(artifact)
    if core.compile_seconds is not None:
        status.set_apart("compile", core.compile_seconds, "load")
    with status.stage("warm_up"):
        core.warm_up()
    return StartedEngine(core, tokenizer)


def _find_artifact(spec: ReplicaSpec) -> Path:
    artifact = Path(spec.artifact)
    if not artifact.exists():
        raise FileNotFoundError(
            f"model {spec.model_revision}: there is no file or folder {artifact}; "
            f"correct the artifact of the Model document"
        )
    if not os.access(artifact, os.R_OK):
        raise PermissionError(f"model {spec.model_revision}: {artifact} cannot be read; chmod it")
    return artifact


def _create_core(plugins: pluggy.PluginManager, spec: ReplicaSpec) -> EngineCore:
    core: EngineCore | None = plugins.hook.pilothouse_create_engine_core(spec=spec)
    if core is None:
        raise PluginError(
            f"plugin {spec.engine!r} makes no core for engine {spec.engine!r}; "
            f"the plugin's name and the engine that it knows must be the same"
        )
    return core
