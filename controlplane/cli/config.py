"""`pilothouse apply`, `get` and `describe`.

Exit codes: 0 done; 1 the control plane cannot be reached, or refuses for another reason;
2 the documents or the command line are wrong, and nothing was applied.
"""

import json
from typing import Any, NoReturn

import click

from controlplane.cli.author import default_author
from controlplane.cli.client import RefusedError, get_json, post_json, url_option
from controlplane.cli.config_files import read_files
from controlplane.cli.config_output import (
    describe_deployment,
    describe_revision,
    documents_as_yaml,
    revision_table,
)
from controlplane.specs.documents import load_documents
from controlplane.specs.kind import Kind, UnknownKindError, find_kind
from controlplane.specs.names import parse_reference
from controlplane.specs.problem import Problem

_WRONG_DOCUMENTS = 2


class KindType(click.ParamType[Kind]):
    """A kind as people write it: any case, singular or plural."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Kind:
        """The kind that is meant; the message lists all when none is."""
        try:
            return find_kind(str(value))
        except UnknownKindError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="A file, a folder (all its .yaml, .yml and .json files), or - for standard input.",
)
@click.option("--reason", default="", help="Why; it stays with the revisions.")
@click.option("--author", default=None, help="Who; by default the user who runs this.")
@click.option("--dry-run", is_flag=True, help="Check and say what would change; change nothing.")
@url_option
def apply(files: tuple[str, ...], reason: str, author: str | None, dry_run: bool, url: str) -> None:
    """Make what the files say the desired state: all of it, or nothing.

    Exit codes: 0 applied, 1 the control plane cannot be reached or refuses, 2 the documents
    are wrong.
    """
    texts = read_files(files)
    local = load_documents(texts)
    if local.problems:
        _refuse([str(problem) for problem in local.problems])
    if not local.documents:
        raise click.UsageError("the files hold no documents")
    body = {
        "files": [{"name": name, "text": text} for name, text in texts],
        "author": author or default_author(),
        "reason": reason,
        "dry_run": dry_run,
    }
    try:
        answer = post_json(url, "/api/v1/apply", body)
    except RefusedError as error:
        if error.status_code == 422 and isinstance(error.body, dict) and "problems" in error.body:
            _refuse([str(Problem(**problem)) for problem in error.body["problems"]])
        raise
    for warning in answer["warnings"]:
        click.echo(f"warning: {Problem(**warning)}", err=True)
    for applied in answer["applied"]:
        click.echo(f"{applied['kind']} {applied['revision']} {applied['change']}")
    if dry_run:
        click.echo("dry run: nothing was changed")


@click.command()
@click.argument("kind", type=KindType(), required=False)
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="json: revisions with digest, author and document; yaml: documents, to be applied again.",
)
@url_option
def get(kind: Kind | None, name: str | None, output: str, url: str) -> None:
    """List config documents: all, those of a KIND, or one."""
    if name is not None and kind is not None:
        revisions = [_get_revision(url, kind, name)]
    else:
        revisions = get_json(url, f"/api/v1/config/{kind}" if kind else "/api/v1/config")
    if output == "json":
        click.echo(json.dumps(revisions, indent=2, ensure_ascii=False))
    elif output == "yaml":
        click.echo(documents_as_yaml([revision["document"] for revision in revisions]), nl=False)
    else:
        click.echo(revision_table(revisions))


@click.command()
@click.argument("kind", type=KindType())
@click.argument("name")
@url_option
def describe(kind: Kind, name: str, url: str) -> None:
    """Show one document: its revision, who made it and why, its history, and the text.

    NAME may pin a revision: chat@3.
    """
    revision = _get_revision(url, kind, name)
    path = f"/api/v1/config/{kind}/{revision['name']}/revisions"
    history = get_json(url, path)
    click.echo(describe_revision(revision, history), nl=False)
    if kind is Kind.DEPLOYMENT:
        deployment = revision["name"]
        replicas = get_json(url, "/api/v1/replicas", deployment=deployment, limit=0)["replicas"]
        changes = get_json(url, f"/api/v1/deployments/{deployment}/changes")
        click.echo(describe_deployment(replicas, changes), nl=False)


def _get_revision(url: str, kind: Kind, name: str) -> Any:
    try:
        reference = parse_reference(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    pinned = {} if reference.number is None else {"number": reference.number}
    return get_json(url, f"/api/v1/config/{kind}/{reference.name}", **pinned)


def _refuse(problems: list[str]) -> NoReturn:
    for problem in problems:
        click.echo(problem, err=True)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    click.echo(f"{count}; nothing was applied", err=True)
    raise SystemExit(_WRONG_DOCUMENTS)
