"""`pilothouse keys`: the keys of programs."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from controlplane.cli.answers import CreatedKeyAnswer, KeyAnswer, KeysAnswer
from controlplane.cli.client import convert_answer, delete_json, get_json, post_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.options import table_option
from controlplane.cli.terminal import instant, say, say_json, table
from dataplane.access import GRANTABLE, Role
from dataplane.atomic_file import replace_file
from dataplane.clock import wall_clock

output_option = table_option("what the API answers.")
reason_option = click.option("--reason", default="", help="For the audit.")
given_reason_option = click.option("--reason", required=True, help="For the audit.")
tenant_option = click.option(
    "--tenant", help="Of whom it is: needed for a client, possible for a viewer."
)


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of programs.

    A client's key sends requests through a gateway for one tenant; a gateway's key follows
    snapshots and delivers records; an alertmanager's key tells of alerts and does nothing else;
    viewer, operator and admin call the control plane.
    """


@keys.command(
    epilog=examples(
        ("pilothouse keys create app-7 --role client --tenant acme --expires 90d", "for an app"),
        ("pilothouse keys create ci --role operator --out ci.key", "into a file, mode 0600"),
    )
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in GRANTABLE]),
    required=True,
    help="What it may do.",
)
@tenant_option
@click.option("--expires", metavar="AGE", help="As 12h or 90d; without it, never.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the key into this file instead of printing it.",
)
@reason_option
@output_option
@url_option
def create(
    name: str,
    role: str,
    tenant: str | None,
    expires: str | None,
    out: Path | None,
    reason: str,
    output: str,
    url: str,
) -> None:
    """Make a key called NAME. It is shown this once, and kept by nobody."""
    if out is not None and out.exists():
        raise click.UsageError(f"--out: {out} exists; nothing is overwritten, and no key was made")
    wanted = {"name": name, "role": role, "tenant": tenant, "expires_in": expires}
    body = {key: value for key, value in wanted.items() if value is not None}
    answer = post_json(url, "/api/v1/keys", body | {"reason": reason})
    made = convert_answer(url, answer, CreatedKeyAnswer)
    if out is not None:
        write_key(out, made.key)
        say(f"{made.name}: key {made.key_id}, written to {out}", is_error=True)
    elif output == "json":
        say_json(answer)
    else:
        say(made.key)
        say(f"key {made.key_id} called {made.name}; it is not shown again", is_error=True)


@keys.command("list", epilog=examples(("pilothouse keys list --all", "revoked ones as well")))
@click.option("--all", "with_revoked", is_flag=True, help="Those that were revoked as well.")
@output_option
@url_option
def list_(with_revoked: bool, output: str, url: str) -> None:
    """List the keys, without their secrets."""
    answer = get_json(url, "/api/v1/keys")
    if output == "json":
        say_json(answer)
        return
    found = convert_answer(url, answer, KeysAnswer).keys
    shown = [key for key in found if with_revoked or key.revoked_at_unix_ns is None]
    say(_table(shown) if shown else "there are no keys; pilothouse keys create makes one")


@keys.command(epilog=examples(("pilothouse keys revoke app-7 --reason 'leaked'", "at once")))
@click.argument("name")
@given_reason_option
@url_option
def revoke(name: str, reason: str, url: str) -> None:
    """End the key called NAME (or with that id) for good.

    The control plane refuses it at once, gateways with the next snapshot, which follows within
    a second or so.
    """
    answer: Any = delete_json(url, f"/api/v1/keys/{quote(name, safe='')}", reason=reason)
    revoked = convert_answer(url, answer, KeyAnswer)
    say(f"revoked {revoked.name}, key {revoked.key_id}")
    if revoked.role == Role.GATEWAY:
        say(
            "it was a gateway's: that gateway serves on with what it knows, and hears of no change "
            "until it has another key",
            is_error=True,
        )


def write_key(path: Path, key: str) -> None:
    """Raises click.ClickException, with the key lost to everybody, when it cannot be written."""
    try:
        replace_file(path, f"{key}\n".encode(), is_private=True)
    except OSError as error:
        raise click.ClickException(
            f"{path} cannot be written ({error.strerror}): revoke this key and make another"
        ) from error


def _table(found: list[KeyAnswer]) -> str:
    rows = [("NAME", "ID", "ROLE", "TENANT", "CREATED", "BY", "EXPIRES")]
    rows += [
        (
            key.name,
            key.key_id,
            key.role,
            key.tenant or "-",
            instant(key.created_at_unix_ns),
            key.created_by,
            _end_of(key),
        )
        for key in found
    ]
    return table(rows)


def _end_of(key: KeyAnswer) -> str:
    if key.revoked_at_unix_ns is not None:
        return f"revoked {instant(key.revoked_at_unix_ns)}"
    if key.expires_at_unix_ns is None:
        return "never"
    word = "expired " if key.expires_at_unix_ns <= wall_clock() else ""
    return f"{word}{instant(key.expires_at_unix_ns)}"
