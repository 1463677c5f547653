"""Documents against the plugins that are installed where the control plane runs."""

from collections.abc import Iterator

from controlplane import hooks
from controlplane.specs.deployment import DeploymentSpec
from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.specs.kind import nearest
from controlplane.specs.model_files import check_model_files
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.problem import Path, Problem
from controlplane.specs.references import LoadedDocument
from dataplane.plugins import PluginError, PluginGroup, list_plugins, load_plugins
from dataplane.routing.builtin import BUILTIN_POLICIES


def check_engine_settings(loaded: LoadedDocument) -> list[Problem]:
    """Problems with an EngineConfig: its engine's plugin is loaded, and judges the settings."""
    spec = loaded.document.spec
    return list(_check_engine(loaded, spec)) if isinstance(spec, EngineConfigSpec) else []


def check_launcher(loaded: LoadedDocument) -> list[Problem]:
    """A Deployment whose launcher is not installed."""
    spec = loaded.document.spec
    installed = [plugin.name for plugin in list_plugins(PluginGroup.CONTROLPLANE)]
    if not isinstance(spec, DeploymentSpec) or spec.launcher in installed:
        return []
    near = nearest(spec.launcher, installed)
    hint = f"; did you mean {near}?" if near else "."
    what = f"no plugin {spec.launcher!r} is installed{hint} Installed: {', '.join(installed)}"
    return [loaded.source.problem(("spec", "launcher"), what)]


def check_routing(loaded: LoadedDocument) -> list[Problem]:
    """An AdmissionPolicy whose routing policy neither comes with Pilothouse nor is installed."""
    spec = loaded.document.spec
    if not isinstance(spec, AdmissionPolicySpec) or spec.routing is None:
        return []
    installed = [plugin.name for plugin in list_plugins(PluginGroup.GATEWAY)]
    if spec.routing.policy in (*BUILTIN_POLICIES, *installed):
        return []
    near = nearest(spec.routing.policy, [*BUILTIN_POLICIES, *installed])
    hint = f"; did you mean {near}?" if near else "."
    what = (
        f"no routing policy {spec.routing.policy!r}{hint} Built in: "
        f"{', '.join(BUILTIN_POLICIES)}; a plugin's is found once its gateways' environment has it"
    )
    return [loaded.source.problem(("spec", "routing", "policy"), what)]


INSTALLED_CHECKS = (check_engine_settings, check_launcher, check_model_files, check_routing)
"""For load_documents, where documents are accepted."""


def _check_engine(loaded: LoadedDocument, spec: EngineConfigSpec) -> Iterator[Problem]:
    source = loaded.source
    try:
        plugins = load_plugins(PluginGroup.CONTROLPLANE, [spec.engine], hooks, hooks.PROJECT)
    except PluginError as error:
        yield source.problem(("spec", "engine"), str(error))
        return
    found: list[tuple[str, str]] | None = plugins.hook.pilothouse_check_engine_settings(
        engine=spec.engine, settings=spec.settings
    )
    if found is None:
        what = f"plugin {spec.engine!r} is installed, but it runs no engine of that name"
        yield source.problem(("spec", "engine"), what)
        return
    for key, what in found:
        path: Path = ("spec", "settings", *filter(None, key.split(".")))
        yield source.problem(path, what, source.key_position(path))
