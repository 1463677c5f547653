"""`pilothouse plugins`: what is installed, by the process that would load it."""

import json
from dataclasses import asdict
from types import ModuleType

import click

from controlplane import hooks as controlplane_hooks
from controlplane.cli.terminal import table
from dataplane import hooks as dataplane_hooks
from dataplane.plugins import PluginError, PluginGroup, PluginInfo, list_plugins, load_plugins

_HOOKS: dict[PluginGroup, ModuleType] = {
    PluginGroup.GATEWAY: dataplane_hooks,
    PluginGroup.REPLICA: dataplane_hooks,
    PluginGroup.CONTROLPLANE: controlplane_hooks,
}


@click.command()
@click.option("--check", is_flag=True, help="Import each one, and say which are broken and why.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def plugins(check: bool, output: str) -> None:
    """List the installed plugins. Only those that the configuration names are ever loaded.

    With --check, exit code 1 when one is broken.
    """
    found = [plugin for group in PluginGroup for plugin in list_plugins(group)]
    problems = [_problem(plugin) if check else None for plugin in found]
    if output == "json":
        rows = [
            asdict(plugin) | ({"problem": problem} if check else {})
            for plugin, problem in zip(found, problems, strict=True)
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo(_as_table(found))
        for problem in filter(None, problems):
            click.echo(f"broken: {problem}", err=True)
    if any(problems):
        raise SystemExit(1)


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
