"""`pilothouse completion`: what a shell needs to complete the command."""

import click

from controlplane.cli.examples import examples

COMPLETE_VARIABLE = "_PILOTHOUSE_COMPLETE"
"""By which a shell asks the command for words; click derives it from the program's name."""


@click.command(
    epilog=examples(
        ("source <(pilothouse completion bash)", "for this shell; in ~/.bashrc for all"),
        ("pilothouse completion zsh > ~/.zfunc/_pilothouse", "zsh, with ~/.zfunc in fpath"),
        ("pilothouse completion fish | source", "fish"),
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, kinds and names.

    Names are asked from the control plane while you type, for at most 0.3 s; when it is down
    there are none.
    """
    from click.shell_completion import get_completion_class

    from controlplane.cli import main

    completer = get_completion_class(shell)
    if completer is None:
        raise click.ClickException(f"click {click.__version__} cannot complete {shell}")
    click.echo(completer(main, {}, "pilothouse", COMPLETE_VARIABLE).source())
