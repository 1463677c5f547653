"""Options that several commands take, each written once."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

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


def _check_url(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    if value is None:
        return None
    from controlplane.store.database_url import DatabaseUrlError, parse_url

    try:
        parse_url(value)
    except DatabaseUrlError as error:
        raise click.BadParameter(str(error)) from error
    return value


def check_console_url(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """A callback of options that say where links lead to: without a scheme they would lead
    nowhere."""
    if value is None or re.match("https?://[^/]", value):
        return value
    raise click.BadParameter(
        f"{value!r} is no address that a browser opens: write it as https://pilothouse.example"
    )


def check_duration(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A callback of options that say how long: the API would name its own field in place of the
    option."""
    from controlplane.specs.quantity import parse_duration

    try:
        parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _database_url_option(kind: str, says: str) -> Callable[[Command], Command]:
    variable = f"PILOTHOUSE_{kind.upper()}_URL"
    return click.option(
        f"--{kind}-url",
        envvar=variable,
        show_envvar=True,
        default=_url_in_file(f"{variable}_FILE"),
        callback=_check_url,
        metavar="URL",
        help=f"{says} {variable}_FILE names a file that holds it.",
    )


config_url_option = _database_url_option(
    "config",
    "Config database, like postgresql://user@host/name. Default: a file in the state directory. "
    "Leave the password to PGPASSFILE, ~/.pgpass or a service file (postgresql:///?service=name), "
    "or set the URL in the environment.",
)
requests_url_option = _database_url_option(
    "requests", "Request database, likewise. It may be the same PostgreSQL database."
)


def database_options(command: Command) -> Command:
    """`--state-dir`, `--config-url` and `--requests-url`."""
    return state_dir_option(config_url_option(requests_url_option(command)))


def files_option(*, required: bool) -> Callable[[Command], Command]:
    """Of commands that read documents."""
    return click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=required,
        metavar="FILE|DIR|-",
        type=click.Path(),
        help="A file, a folder (all its .yaml, .yml and .json files), or - for standard input. "
        "May be given several times.",
    )


since_option = click.option(
    "--since",
    "--from",
    "since",
    help="Arrived since: an age such as 30m, 6h or 2d, or an ISO 8601 time (UTC if it has no "
    "offset).",
)
until_option = click.option("--until", "--to", "until", help="Arrived before: as --since.")
"""Of commands about requests that ended."""


def table_option(json: str) -> Callable[[Command], Command]:
    """Of commands that show a table; `json` says what programs get instead."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help=f"json: {json}",
    )


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: for programs.",
)
"""Of commands that show one thing in words."""
