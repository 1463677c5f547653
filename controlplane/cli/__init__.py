"""The `pilothouse` command. Each subcommand's module is imported only when it is used."""

import importlib

import click

# Command name -> where it lives. Torch-free and quick to import, all of them.
COMMANDS = {
    "apply": "controlplane.cli.config:apply",
    "controlplane": "controlplane.cli.serve:controlplane",
    "db": "controlplane.cli.database:db",
    "describe": "controlplane.cli.config:describe",
    "get": "controlplane.cli.config:get",
    "plugins": "controlplane.cli.plugins:plugins",
    "requests": "controlplane.cli.requests:requests",
    "serve": "controlplane.cli.serve:serve",
    "trace": "controlplane.cli.requests:trace",
}


class LazyGroup(click.Group):
    """A command group that imports a subcommand when it is first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`, or None."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module_name, _, attribute = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module_name), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pilothouse")
def main() -> None:
    """Pilothouse: the control room above LLM inference engines."""
