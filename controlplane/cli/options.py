"""Options that several commands take, each written once."""

import os
from collections.abc import Callable
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


def _url_in_file(variable: str) -> Callable[[], str | None]:
    """The URL in the file that an environment variable names: it may hold a password."""

    def read() -> str | None:
        path = os.environ.get(variable)
        if not path:
            return None
        try:
            return Path(path).read_text().strip() or None
        except OSError as error:
            raise click.UsageError(
                f"{variable}: {path} cannot be read ({error.strerror})"
            ) from error

    return read


def _database_url_option(
    kind: str, database: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    variable = f"PILOTHOUSE_{kind.upper()}_URL"
    return click.option(
        f"--{kind}-url",
        envvar=variable,
        show_envvar=True,
        default=_url_in_file(f"{variable}_FILE"),
        help=f"SQLAlchemy URL of the {database} database, instead of SQLite in the state "
        f"directory. {variable}_FILE names a file that holds it.",
    )


config_url_option = _database_url_option("config", "config")
requests_url_option = _database_url_option("requests", "request")
