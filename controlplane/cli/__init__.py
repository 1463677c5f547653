"""The `pilothouse` command. Each subcommand's module is imported only when it is used."""

import importlib
from typing import TYPE_CHECKING

import click

from controlplane.cli.exit_codes import exit_code_table
from controlplane.cli.terminal import printable_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Command name -> where it lives. Torch-free and quick to import, all of them.
COMMANDS = {
    "access": "controlplane.cli.access:access",
    "apply": "controlplane.cli.apply:apply",
    "audit": "controlplane.cli.audit:audit",
    "completion": "controlplane.cli.completion:completion",
    "controlplane": "controlplane.cli.serve:controlplane",
    "db": "controlplane.cli.database:db",
    "describe": "controlplane.cli.describe:describe",
    "diagnose": "controlplane.cli.diagnose:diagnose",
    "diff": "controlplane.cli.describe:diff",
    "explain": "controlplane.cli.explain:explain",
    "export": "controlplane.cli.export:export",
    "fit": "controlplane.cli.fit:fit",
    "gateway": "controlplane.cli.gateway:gateway",
    "get": "controlplane.cli.get:get",
    "import": "controlplane.cli.export:import_",
    "incidents": "controlplane.cli.incidents:incidents",
    "keys": "controlplane.cli.keys:keys",
    "override": "controlplane.cli.override:override",
    "plan": "controlplane.cli.plan:plan",
    "plugins": "controlplane.cli.plugins:plugins",
    "requests": "controlplane.cli.requests:requests",
    "rollout": "controlplane.cli.rollout:rollout",
    "runbook": "controlplane.cli.runbook:runbook",
    "serve": "controlplane.cli.serve:serve",
    "simulate": "controlplane.cli.simulate:simulate",
    "slo": "controlplane.cli.slo:slo",
    "support-bundle": "controlplane.cli.support_bundle:support_bundle",
    "trace": "controlplane.cli.trace:trace",
    "usage": "controlplane.cli.usage:usage",
    "users": "controlplane.cli.users:users",
}


# What the list of commands says of each, so that printing it imports none.
SUMMARIES = {
    "access": "Let the first admin in.",
    "audit": "List who changed what, when and why.",
    "apply": "Make what files say the desired state.",
    "completion": "Print the completion script of a shell.",
    "controlplane": "Run the control plane alone.",
    "db": "Create, upgrade and check the databases.",
    "describe": "Show one document, replica or gateway, whole.",
    "diagnose": "Say what is wrong with an engine, and why.",
    "diff": "Say what differs between two revisions.",
    "explain": "Explain a config field, a metric, a span.",
    "export": "Write the whole config into a folder.",
    "fit": "Learn what a replica's steps take, for simulations.",
    "gateway": "Restart the gateway without cutting a stream.",
    "get": "List documents, replicas, rollouts, overrides or events.",
    "import": "Take in what `export` wrote.",
    "incidents": "List what was found wrong, and look after it.",
    "keys": "Make, list and revoke the keys of programs.",
    "override": "Pin or bypass a policy for a time: break-glass.",
    "plan": "Say what applying files would do, and to whom.",
    "plugins": "List and describe the installed plugins.",
    "requests": "List requests that ended or are in flight.",
    "rollout": "Follow rollouts, and say how they go on.",
    "runbook": "Print what to do about a trouble.",
    "serve": "Serve models on this machine, all in one.",
    "simulate": "Let a file happen in virtual time.",
    "slo": "Show how objectives stand; print their rules.",
    "support-bundle": "Gather what somebody else needs to help.",
    "usage": "Show who used what, and what it cost.",
    "users": "Say who may log in to the console.",
    "trace": "Show the whole life of one request.",
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

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what an error quotes must not command the terminal either."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = printable_lines(error.message)  # type: ignore[misc]
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES.get(name, "")) for name in sorted(COMMANDS)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands that begin so; options where a - was typed."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        names = (name for name in sorted(COMMANDS) if name.startswith(incomplete))
        return [CompletionItem(name, help=SUMMARIES.get(name)) for name in names]


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exit_code_table(),
)
@click.version_option(package_name="pilothouse")
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False),
    envvar="PILOTHOUSE_KEY_FILE",
    show_envvar=True,
    help="Holds the key to show the control plane; the key itself can be in PILOTHOUSE_KEY.",
)
def main(key_file: str | None) -> None:
    """Pilothouse: the control room above LLM inference engines.

    Begin with `pilothouse serve`. Every command has its own --help, with examples.
    """
