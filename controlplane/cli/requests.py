"""`pilothouse requests` lists ended requests, `pilothouse trace` shows the life of one."""

import json
import os
import sys
from typing import Any
from urllib.parse import quote

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controlplane.api.request_query import MAX_LIMIT
from controlplane.api.request_views import RequestDetail, RequestPage, RequestSummary
from controlplane.cli.client import get_json, url_option
from controlplane.cli.waterfall import print_request, printable
from controlplane.console.formatting import clock_time, duration, short_id
from dataplane.lifecycle import Disposition

_PIPED_WIDTH = 120

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json is what the API answers.",
)


@click.command()
@click.option("--deployment", help="Only of this deployment.")
@click.option("--class", "request_class", help="Only of this request class.")
@click.option("--tenant", help="Only of this tenant.")
@click.option(
    "--disposition",
    type=click.Choice([word.value for word in Disposition]),
    help="Only those that ended so.",
)
@click.option("--in-contract/--out-of-contract", default=None, help="Only those judged so.")
@click.option("--since", help="An age such as 30m, 6h or 2d, or an ISO 8601 time.")
@click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=20, show_default=True)
@output_option
@url_option
def requests(
    deployment: str | None,
    request_class: str | None,
    tenant: str | None,
    disposition: str | None,
    in_contract: bool | None,
    since: str | None,
    limit: int,
    output: str,
    url: str,
) -> None:
    """List ended requests, the newest first."""
    given = {
        "deployment": deployment,
        "class": request_class,
        "tenant": tenant,
        "disposition": disposition,
        "in_contract": None if in_contract is None else str(in_contract).lower(),
        "since": since,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    answer = get_json(url, "/api/v1/requests", limit=limit, **wanted)
    if output == "json":
        _print_json(answer)
        return
    page = msgspec.convert(answer, RequestPage)
    if not page.requests:
        click.echo("no request matches" if wanted else "no request has ended yet", err=True)
        return
    _console().print(_table(page))
    if page.next is not None:
        click.echo(f"the newest {limit}; there are more (--limit, --since)", err=True)


@click.command()
@click.argument("request_id", metavar="ID")
@output_option
@url_option
def trace(request_id: str, output: str, url: str) -> None:
    """Show the whole life of one request.

    ID is its request id, its trace id, or the beginning of one if no other begins so.
    """
    answer = get_json(url, f"/api/v1/requests/{quote(request_id, safe='')}")
    if output == "json":
        _print_json(answer)
        return
    print_request(_console(), msgspec.convert(answer, RequestDetail))


def _table(page: RequestPage) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    # Only names may be cut on a narrow terminal: an id or a number that is cut says nothing.
    for name, width in (("arrived, UTC", 12), ("request", 10), ("ended", 9), ("contract", 8)):
        table.add_column(name, no_wrap=True, min_width=width)
    for name in ("deployment", "tenant"):
        table.add_column(name, no_wrap=True, min_width=4, overflow="ellipsis")
    for name in ("ttft", "e2e", "in/out"):
        table.add_column(name, justify="right", no_wrap=True, min_width=6)
    for each in page.requests:
        table.add_row(*_cells(each, page.as_of_unix_ns))
    return table


def _cells(each: RequestSummary, now_unix_ns: int) -> list[Text]:
    contract = {None: "○", True: "kept", False: "◆ missed"}[each.in_contract]
    prompt = "?" if each.num_prompt_tokens is None else str(each.num_prompt_tokens)
    cells = [
        clock_time(each.arrived_at_unix_ns, now_unix_ns),
        short_id(each.request_id),
        each.disposition,
        contract,
        each.deployment or "unknown",
        each.tenant or "unknown",
        _seconds(each.ttft_seconds),
        _seconds(each.e2e_seconds),
        f"{prompt}/{each.num_output_tokens}",
    ]
    # Text, because what a caller chose must never be read as markup.
    return [Text(printable(cell)) for cell in cells]


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else str(duration(seconds))


def _console() -> Console:
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False)


def _print_json(answer: Any) -> None:
    click.echo(json.dumps(answer, indent=2))
