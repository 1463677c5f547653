"""`pilothouse access`: the way in, for an installation that nobody can enter yet."""

from pathlib import Path

import click

from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.keys import write_key
from controlplane.cli.options import config_url_option, state_dir_option
from controlplane.cli.terminal import say


@click.group()
def access() -> None:
    """Let the first admin in. Everything after that is `pilothouse keys` and `users`."""


@access.command(
    epilog=examples(
        ("pilothouse access bootstrap --out admin.key", "once the databases exist"),
        ("pilothouse --key-file admin.key users create ana --role admin", "then people"),
    )
)
@state_dir_option
@config_url_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the key into this file instead of printing it.",
)
@click.option(
    "--recover",
    is_flag=True,
    help="Make one although there are admins, because their keys and passwords are lost.",
)
def bootstrap(state_dir: Path, config_url: str | None, out: Path | None, recover: bool) -> None:
    """Make an admin's key, straight in the config database.

    For whoever can write to the database anyway. Refused once there is an admin; --recover
    makes one nevertheless. It is audited either way. Exit code 3 when the database cannot be
    used as it is.
    """
    from controlplane.cli.author import default_author
    from controlplane.store.access_keys import add_key
    from controlplane.store.connection import DatabaseKind, default_paths, sqlite_url
    from controlplane.store.database import SchemaError, open_database
    from controlplane.store.users import has_admin
    from dataplane.access import Role
    from dataplane.clock import wall_clock

    if out is not None and out.exists():
        raise click.UsageError(f"--out: {out} exists; nothing is overwritten, and no key was made")
    kind = DatabaseKind.CONFIG
    url = config_url or sqlite_url(default_paths(state_dir.absolute())[kind])
    try:
        database = open_database(url, kind)
    except SchemaError as error:
        say(f"Error: {error}", is_error=True)
        raise SystemExit(ExitCode.UNUSABLE_STATE) from error
    try:
        with database.session() as session:
            if has_admin(session) and not recover:
                raise click.ClickException(
                    "there is an admin already. If every key and password is lost, add --recover"
                )
            made = add_key(
                session,
                name=f"bootstrap-{wall_clock() // 10**6}",
                role=Role.ADMIN,
                tenant=None,
                expires_at_unix_ns=None,
                actor=default_author(),
                reason="recovered" if recover else "the first admin",
            )
    finally:
        database.close()
    if out is None:
        say(made.text)
        say("this admin's key is not shown again", is_error=True)
    else:
        write_key(out, made.text)
        say(f"the admin's key is in {out}", is_error=True)
