"""`pilothouse export` and `pilothouse import`: the config, carried from one place to another."""

from pathlib import Path
from typing import Any

import click

from controlplane.cli.author import default_author
from controlplane.cli.client import convert_answer, get_json, post_bytes, url_option
from controlplane.cli.examples import examples
from controlplane.cli.options import table_option
from controlplane.cli.terminal import say, say_json

_WHICH = (
    "\b\nWhich to use:\n"
    "  pilothouse export, import     config alone, as text: to move it, review it or keep it in\n"
    "                                git; users, keys and passwords stay where they are\n"
    "  pilothouse db backup, restore the databases as they are, with users, keys, audit,\n"
    "                                overrides and, if asked, request data: to survive their loss"
)
output_option = table_option("what was done, for programs.")


@click.command(
    name="export",
    epilog=examples(
        ("pilothouse export -o conf-2026-12", "into a folder that is not there yet"),
        ("pilothouse plan -f conf-2026-12", "whether it is still what is stored"),
    )
    + "\n\n"
    + _WHICH,
)
@click.option(
    "-o",
    "--output-dir",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to; it must not exist, or be empty.",
)
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
@url_option
def export(folder: Path, as_json: bool, url: str) -> None:
    """Write the whole config into a folder.

    `documents/KIND/NAME.yaml` are the latest documents, which can be applied again;
    `history.jsonl` holds every revision of every document with its number, digest, author, reason
    and time, and where deployments and their rollouts stand: `pilothouse import` reads it. Users,
    keys, the audit and overrides are not documents, and are left out; so is request data.
    """
    from controlplane.cli.export_folder import write_export
    from controlplane.store.config_export import ConfigExport

    found = convert_answer(url, get_json(url, "/api/v1/export"), ConfigExport)
    num_documents = write_export(folder, found)
    told: dict[str, Any] = {
        "folder": str(folder),
        "num_documents": num_documents,
        "num_revisions": len(found.revisions),
        "digest": found.digest,
    }
    if as_json:
        say_json(told)
        return
    say(f"{folder}: {num_documents} documents, {len(found.revisions)} revisions")
    say(f"config digest {found.digest}")


@click.command(
    name="import",
    epilog=examples(
        ("pilothouse import conf-2026-12", "into a control plane over an empty database"),
        ("pilothouse import conf-2026-12 --url http://10.0.0.7:8700", "into another one"),
    )
    + "\n\n"
    + _WHICH,
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--author", default=None, help="Who; by default the user who runs this.")
@output_option
@url_option
def import_(folder: Path, author: str | None, output: str, url: str) -> None:
    """Take in what `pilothouse export` wrote, whole or not at all.

    Revisions keep their numbers, digests, authors, reasons and times, and deployments stand where
    they stood, so the config database has to be empty: start a control plane over a new one
    (`pilothouse controlplane --state-dir NEW`). Every digest is computed again first. To bring
    documents onto config that is there, use `pilothouse apply -f DIR`. Needs the role admin.
    """
    import msgspec

    from controlplane.cli.export_folder import read_export

    body = msgspec.json.encode(read_export(folder))
    query = "/api/v1/import?author=" + _quoted(author or default_author())
    done = post_bytes(url, query, body)
    if output == "json":
        say_json(done)
        return
    say(f"{done['num_revisions']} revisions were taken in")
    say(f"config digest {done['digest']}")


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
