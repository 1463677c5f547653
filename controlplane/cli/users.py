"""`pilothouse users`: who may log in to the console."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from controlplane.cli.answers import UserAnswer, UsersAnswer
from controlplane.cli.client import convert_answer, get_json, patch_json, post_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.keys import given_reason_option, output_option, reason_option
from controlplane.cli.terminal import instant, say, say_json, table
from dataplane.access import FOR_PEOPLE

_ROLES = [role.value for role in FOR_PEOPLE]

password_option = click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    help="Holds the password (- is standard input); without it, it is asked for.",
)


@click.group()
def users() -> None:
    """Say who may log in to the console, and what they may do there."""


@users.command(
    epilog=examples(("pilothouse users create ana --role operator", "asks for the password"))
)
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What they may do.")
@click.option("--tenant", help="A viewer of this tenant's requests alone.")
@password_option
@reason_option
@url_option
def create(
    name: str, role: str, tenant: str | None, password_file: Path | None, reason: str, url: str
) -> None:
    """Let NAME log in."""
    body: dict[str, Any] = {"name": name, "role": role, "reason": reason}
    body["password"] = read_password(password_file)
    if tenant is not None:
        body["tenant"] = tenant
    _say_user(url, post_json(url, "/api/v1/users", body))


@users.command("list", epilog=examples(("pilothouse users list -o json", "for a program")))
@output_option
@url_option
def list_(output: str, url: str) -> None:
    """List everybody."""
    answer = get_json(url, "/api/v1/users")
    if output == "json":
        say_json(answer)
        return
    found = convert_answer(url, answer, UsersAnswer).users
    say(_table(found) if found else "there are no users; pilothouse users create makes one")


@users.command(epilog=examples(("pilothouse users password ann", "asks for the new one")))
@click.argument("name")
@password_option
@reason_option
@url_option
def password(name: str, password_file: Path | None, reason: str, url: str) -> None:
    """Give NAME a new password; wherever they were logged in, they are not any more."""
    _change(url, name, {"password": read_password(password_file), "reason": reason})


@users.command(
    epilog=examples(("pilothouse users role ann --role operator --reason 'on call'", "from now on"))
)
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What they may do.")
@click.option("--tenant", help="A viewer of this tenant's requests alone.")
@reason_option
@url_option
def role(name: str, role: str, tenant: str | None, reason: str, url: str) -> None:
    """Give NAME another role."""
    _change(url, name, {"role": role, "tenant": tenant, "reason": reason})


@users.command(
    epilog=examples(("pilothouse users disable ann --reason 'left'", "and end all sessions"))
)
@click.argument("name")
@given_reason_option
@url_option
def disable(name: str, reason: str, url: str) -> None:
    """Shut NAME out at once."""
    _change(url, name, {"is_disabled": True, "reason": reason})


@users.command(epilog=examples(("pilothouse users enable ann", "with the password as it was")))
@click.argument("name")
@reason_option
@url_option
def enable(name: str, reason: str, url: str) -> None:
    """Let NAME in again."""
    _change(url, name, {"is_disabled": False, "reason": reason})


def read_password(path: Path | None) -> str:
    """From a file or standard input, or asked for twice; never from an argument."""
    if path is None:
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return asked
    with click.open_file(str(path)) as file:
        text: str = file.read()
    return text.rstrip("\r\n")


def _change(url: str, name: str, body: dict[str, Any]) -> None:
    _say_user(url, patch_json(url, f"/api/v1/users/{quote(name, safe='')}", body))


def _say_user(url: str, answer: Any) -> None:
    user = convert_answer(url, answer, UserAnswer)
    bound = f" of tenant {user.tenant}" if user.tenant else ""
    say(f"{user.name}: {user.role}{bound}{', disabled' if user.is_disabled else ''}")


def _table(found: list[UserAnswer]) -> str:
    rows = [("NAME", "ROLE", "TENANT", "STATE", "CREATED", "BY")]
    rows += [
        (
            user.name,
            user.role,
            user.tenant or "-",
            "disabled" if user.is_disabled else "enabled",
            instant(user.created_at_unix_ns),
            user.created_by,
        )
        for user in found
    ]
    return table(rows)
