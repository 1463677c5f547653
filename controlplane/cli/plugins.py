"""`pilothouse plugins`: what is installed, by the process that would load it."""

import inspect
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

import click
import pluggy

from controlplane import hooks as controlplane_hooks
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import table_option
from controlplane.cli.terminal import indented, say, say_json, table
from dataplane import hooks as dataplane_hooks
from dataplane.plugins import PluginError, PluginGroup, PluginInfo, list_plugins, load_plugins

_HOOKS: dict[PluginGroup, ModuleType] = {
    PluginGroup.GATEWAY: dataplane_hooks,
    PluginGroup.REPLICA: dataplane_hooks,
    PluginGroup.CONTROLPLANE: controlplane_hooks,
}
_CHECKS_SETTINGS = "pilothouse_check_engine_settings"
_NO_SETTING = "?"
"""A setting that no engine takes: the answer lists those it does."""


@click.group(
    invoke_without_command=True,
    epilog=examples(
        ("pilothouse plugins", "what is installed"),
        ("pilothouse plugins --check", "import each, and say which are broken"),
        ("pilothouse plugins describe openai", "what one provides, and the settings it takes"),
    ),
)
@click.option("--check", is_flag=True, help="Import each one, and say which are broken and why.")
@table_option("one object a plugin.")
@click.pass_context
def plugins(context: click.Context, check: bool, output: str) -> None:
    """List the installed plugins. Only those that the configuration names are ever loaded.

    With --check, exit code 1 when one is broken.
    """
    if context.invoked_subcommand is not None:
        return
    found = [plugin for group in PluginGroup for plugin in list_plugins(group)]
    problems = [_problem(plugin) if check else None for plugin in found]
    if output == "json":
        rows = [
            asdict(plugin) | ({"problem": problem} if check else {})
            for plugin, problem in zip(found, problems, strict=True)
        ]
        say_json(rows)
    else:
        say(_as_table(found))
        for problem in filter(None, problems):
            say(f"broken: {problem}", is_error=True)
    if any(problems):
        raise SystemExit(ExitCode.FAILED)


@plugins.command(
    epilog=examples(
        ("pilothouse plugins describe paged", "the native engine"),
        ("pilothouse plugins describe local", "the launcher of this machine"),
        ("pilothouse plugins describe openai -o json", "the same for a program"),
    )
)
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object for each process that loads it.",
)
def describe(name: str, output: str) -> None:
    """Show what one plugin provides, in each process that loads it. Imports it."""
    found = [
        plugin for group in PluginGroup for plugin in list_plugins(group) if plugin.name == name
    ]
    if not found:
        known = sorted({plugin.name for group in PluginGroup for plugin in list_plugins(group)})
        message = f"there is no plugin {name!r}. Installed: {', '.join(known)}"
        raise CallError(message, ExitCode.NOT_FOUND)
    try:
        provided = [_provided(plugin) for plugin in found]
    except PluginError as error:
        raise CallError(str(error), ExitCode.FAILED) from error
    if output == "json":
        say_json([asdict(each.plugin) | each.facts for each in provided])
    else:
        say("\n".join(_as_text(each) for each in provided))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provided:
    """What a plugin gives the process of its group."""

    plugin: PluginInfo
    about: str
    hooks: dict[str, str]
    """What each is for, by its name."""
    settings: list[str] | None
    """None: it does not say which it takes."""

    @property
    def facts(self) -> dict[str, Any]:
        return {"about": self.about, "hooks": self.hooks, "settings": self.settings}


def _provided(plugin: PluginInfo) -> _Provided:
    """Raises PluginError."""
    manager = load_plugins(
        plugin.group, [plugin.name], _HOOKS[plugin.group], dataplane_hooks.PROJECT
    )
    module = manager.get_plugin(plugin.name)
    names = sorted(caller.name for caller in manager.get_hookcallers(module) or ())
    return _Provided(
        plugin=plugin,
        about=" ".join((inspect.getdoc(module) or "").split()),
        hooks={name: _says(getattr(_HOOKS[plugin.group], name)) for name in names},
        settings=_settings(plugin.name, manager) if _CHECKS_SETTINGS in names else None,
    )


def _settings(engine: str, manager: pluggy.PluginManager) -> list[str] | None:
    problems = manager.hook.pilothouse_check_engine_settings(
        engine=engine, settings={_NO_SETTING: None}
    )
    told = [what.partition("Valid: ")[2] for _, what in problems or ()]
    return next((names.split(", ") for names in told if names), None)


def _as_text(provided: _Provided) -> str:
    plugin = provided.plugin
    head = f"{plugin.group.value}: {plugin.target} ({plugin.distribution} {plugin.version})"
    text = f"{head}\n{indented(provided.about)}"
    hooks = list(provided.hooks.items())
    text += indented(table(hooks) if hooks else "implements no hook")
    if provided.settings is not None:
        text += indented(f"settings it takes: {', '.join(provided.settings)}")
    return text.rstrip("\n")


def _says(hook: object) -> str:
    """The first sentence about a hook."""
    text = " ".join((inspect.getdoc(hook) or "").split())
    return text.partition("; ")[0].partition(". ")[0]


def _as_table(found: list[PluginInfo]) -> str:
    rows = [("GROUP", "NAME", "MODULE", "DISTRIBUTION", "VERSION")]
    rows += [
        (plugin.group.value, plugin.name, plugin.target, plugin.distribution, plugin.version)
        for plugin in found
    ]
    return table(rows)


def _problem(plugin: PluginInfo) -> str | None:
    hooks = _HOOKS[plugin.group]
    try:
        load_plugins(plugin.group, [plugin.name], hooks, dataplane_hooks.PROJECT)
    except PluginError as error:
        return str(error)
    return None
