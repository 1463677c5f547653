"""`pilothouse slo dashboards`: Grafana dashboards of what is in force, into files or a Grafana."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import check_console_url
from controlplane.cli.output_file import check_folder_is_there, write_file
from controlplane.cli.terminal import say

if TYPE_CHECKING:
    from dashboards.contract import Contracted

_MESSAGE = "pilothouse slo dashboards"


@click.command(
    epilog=examples(
        ("pilothouse slo dashboards --out dashboards", "all of them, as files"),
        ("pilothouse slo dashboards chat --out dashboards", "of the contract chat alone"),
        (
            "pilothouse slo dashboards --push http://grafana:3000 --token-file token",
            "all of them into a Grafana",
        ),
    )
)
@click.argument("name", required=False)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a JSON file for each into this folder.",
)
@click.option("--push", metavar="URL", help="Put them into the Grafana at this address.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="With --push: holds the token of a service account with the role Editor.",
)
@click.option(
    "--console-url",
    callback=check_console_url,
    help="Where links lead to, as browsers reach the console. Default: --url.",
)
@url_option
def dashboards(
    name: str | None,
    folder: Path | None,
    push: str | None,
    token_file: Path | None,
    console_url: str | None,
    url: str,
) -> None:
    """Make Grafana dashboards: of the fleet, one deployment, admission and the control plane, and
    one for each deployment under a contract.

    The last draw the promises of the revision that is desired, and name it; make them anew after a
    change of the contract. NAME of a contract makes those under it alone. What was there of the
    same name, as a file or in Grafana, is replaced.
    """
    if (folder is None) is (push is None):
        raise click.UsageError("give --out FOLDER, or --push URL")
    if (push is None) is not (token_file is None):
        raise click.UsageError("--push and --token-file belong together")
    if folder is not None:
        check_folder_is_there(folder)
    texts = _render(name, url, console_url or url)
    if folder is not None:
        for file_name, text in texts.items():
            write_file(folder / file_name, text)
            say(str(folder / file_name))
    elif push is not None and token_file is not None:
        _push(list(texts.values()), push, token_file)


def _render(name: str | None, url: str, console_url: str) -> dict[str, str]:
    from controlplane.slo.prometheus.links import Links

    try:
        from dashboards.rendering import render_contracts, render_general
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("grafana_foundation_sdk"):
            raise
        raise click.ClickException(
            "dashboards are made with grafana-foundation-sdk, which is not installed: "
            "pip install 'pilothouse[dashboards]'"
        ) from error
    links = Links(console_url=console_url)
    texts = render_contracts(_contracts(name, url), links)
    return texts if name is not None else render_general(links) | texts


def _contracts(name: str | None, url: str) -> Iterator["Contracted"]:
    """What each deployment under the contract `name`, or under any, is promised."""
    from controlplane.api.slo_views import StandingList
    from controlplane.slo.promised import promises_of
    from dashboards.contract import Contracted

    view = convert_answer(url, get_json(url, "/api/v1/slo"), StandingList)
    observed = {each.deployment for each in view.standings if each.notes}
    revisions = {each.deployment: each.contract_revision for each in view.standings}
    chosen = {
        deployment: revision
        for deployment, revision in revisions.items()
        if name is None or revision.rpartition("@")[0] == name
    }
    if name is not None and not chosen:
        known = sorted({revision.rpartition("@")[0] for revision in revisions.values()})
        told = f"those in force are {', '.join(known)}" if known else "none is in force"
        raise CallError(
            f"no deployment is under a contract called {name[:128]}; {told}", ExitCode.NOT_FOUND
        )
    for deployment, revision in sorted(chosen.items()):
        spec = _spec(url, revision)
        yield Contracted(
            promises=list(promises_of(deployment, revision, spec)),
            boundary=spec.boundary,
            is_observed_only=deployment in observed,
        )


def _spec(url: str, revision: str) -> Any:
    from controlplane.specs.contract import SLOContractSpec

    name, _, number = revision.rpartition("@")
    answer = get_json(url, f"/api/v1/config/SLOContract/{name}", number=number)
    # Specs are strict about Python's values, not about JSON's.
    return SLOContractSpec.model_validate_json(json.dumps(answer["document"]["spec"]))


def _push(texts: list[str], address: str, token_file: Path) -> None:
    from dashboards.publish import GrafanaServer, PublishError, publish

    token = _read_token(token_file)
    try:
        for each in publish(texts, GrafanaServer(address, token), _MESSAGE):
            say(f"{each.url}  {each.title}")
    except PublishError as error:
        raise CallError(str(error), ExitCode.FAILED) from error


def _read_token(path: Path) -> str:
    """In one line of its file, since other users of the machine can read a command's arguments."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise click.UsageError(f"--token-file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--token-file {path} is no text") from error
    if not token.isascii() or not token.isprintable() or not token:
        raise click.UsageError(f"--token-file {path} holds no token in one line")
    return token
