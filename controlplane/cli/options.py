"""Options that several commands take, each written once."""

from pathlib import Path

import click

state_dir_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="PILOTHOUSE_STATE_DIR",
    default=Path(".pilothouse"),
    show_default=True,
    show_envvar=True,
    help="Where databases, logs and the record of processes are.",
)
"""The state directory of one installation."""
