"""`pilothouse requests`: what was asked, what is in flight, and what missed its contract."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from controlplane.api.paging import MAX_LIMIT
from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.completion_words import complete_deployments
from controlplane.cli.examples import examples
from controlplane.cli.options import since_option, table_option, until_option
from controlplane.cli.progress import progress_bar
from controlplane.cli.terminal import say, say_json
from dataplane.lifecycle import Disposition

if TYPE_CHECKING:
    from rich.console import RenderableType

    from controlplane.api.live import LiveRequests

_PATH = "/api/v1/requests"
_ONLY_ENDED = ("disposition", "in_contract", "since", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which requests, as the API's parameters name them; None: any."""

    deployment: str | None
    request_class: str | None
    tenant: str | None
    disposition: str | None
    in_contract: bool | None
    since: str | None
    until: str | None

    @property
    def parameters(self) -> dict[str, str]:
        """What the API is asked with."""
        given = {
            "deployment": self.deployment,
            "class": self.request_class,
            "tenant": self.tenant,
            "disposition": self.disposition,
            "in_contract": None if self.in_contract is None else str(self.in_contract).lower(),
            "since": self.since,
            "until": self.until,
        }
        return {name: value for name, value in given.items() if value is not None}


@click.command(
    epilog=examples(
        ("pilothouse requests --slo-miss --since 30m", "who was hurt in the last half hour"),
        ("pilothouse requests --live --watch", "what is in flight, again every 2 s"),
        (
            "pilothouse requests --from 2026-11-29T02:00 --to 2026-11-29T02:30 --deployment chat",
            "one deployment in a window (UTC)",
        ),
        ("pilothouse requests --all -o json --since 1d", "everything, as JSON lines"),
    )
)
@click.option("--deployment", help="Only of this deployment.", shell_complete=complete_deployments)
@click.option("--class", "request_class", help="Only of this request class.")
@click.option("--tenant", help="Only of this tenant.")
@click.option(
    "--disposition",
    type=click.Choice([word.value for word in Disposition]),
    help="Only those that ended so.",
)
@click.option(
    "--in-contract/--out-of-contract",
    default=None,
    help="Only those that kept their contract, or only those that missed it.",
)
@click.option("--slo-miss", is_flag=True, help="The same as --out-of-contract.")
@since_option
@until_option
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=20,
    show_default=True,
    help="How many, the newest first.",
)
@click.option("--all", "is_all", is_flag=True, help="All that match, as JSON lines (-o json).")
@click.option("--live", is_flag=True, help="Those in flight now, asked from the gateways.")
@click.option("--watch", is_flag=True, help="Show again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks of --watch.",
)
@table_option("what the API answers; with --all, one request a line.")
@url_option
def requests(
    deployment: str | None,
    request_class: str | None,
    tenant: str | None,
    disposition: str | None,
    in_contract: bool | None,
    slo_miss: bool,
    since: str | None,
    until: str | None,
    limit: int,
    is_all: bool,
    live: bool,
    watch: bool,
    interval: float,
    output: str,
    url: str,
) -> None:
    """List requests that ended, the newest first; with --live, those in flight.

    Of one in flight, `queued #3` says its place in its deployment's queue at its gateway; #1 is
    the next. In the column `contract`, ○ means that nothing was promised or could be judged. One
    request is shown whole by `pilothouse trace ID`.
    """
    if slo_miss and in_contract:
        raise click.UsageError("--slo-miss and --in-contract exclude each other")
    wanted = Wanted(
        deployment=deployment,
        request_class=request_class,
        tenant=tenant,
        disposition=disposition,
        in_contract=False if slo_miss else in_contract,
        since=since,
        until=until,
    )
    _check(wanted, is_all=is_all, live=live, watch=watch, output=output)
    if is_all:
        _say_all(url, wanted)
    elif watch:
        _watch(lambda: _look(url, wanted, limit, live), interval)
    elif live:
        _say_live(url, wanted, output)
    else:
        _say_page(url, wanted, limit, output)


def _check(wanted: Wanted, *, is_all: bool, live: bool, watch: bool, output: str) -> None:
    """Raises UsageError for options that contradict each other."""
    if live and is_all:
        raise click.UsageError("--live shows all that are in flight anyway; leave out --all")
    given = [name for name in _ONLY_ENDED if getattr(wanted, name) is not None]
    if live and given:
        option = {"in_contract": "--slo-miss"}.get(given[0], f"--{given[0]}")
        raise click.UsageError(f"{option} is about requests that ended; leave it out with --live")
    if is_all and output != "json":
        raise click.UsageError("--all writes JSON lines: add -o json")
    if watch and (is_all or output == "json"):
        raise click.UsageError("--watch is for people: leave out --all and -o json")


def _say_page(url: str, wanted: Wanted, limit: int, output: str) -> None:
    answer = get_json(url, _PATH, limit=limit, **wanted.parameters)
    if output == "json":
        say_json(answer)
        return
    from controlplane.api.request_views import RequestPage
    from controlplane.cli.fitted_table import print_table
    from controlplane.cli.request_output import request_table

    page = convert_answer(url, answer, RequestPage)
    if not page.requests:
        say(_nothing(wanted), is_error=True)
        return
    print_table(request_table(page))
    if page.next is not None:
        say(f"the newest {limit}; there are more (--limit, --since, --all)", is_error=True)


def _say_live(url: str, wanted: Wanted, output: str) -> None:
    answer = get_json(url, f"{_PATH}/live")
    live = get_live(url, answer, wanted)
    if output == "json":
        ids = {each.request_id for each in live.requests}
        kept = [each for each in answer["requests"] if each["request_id"] in ids]
        say_json({**answer, "requests": kept})
        return
    from controlplane.cli.fitted_table import print_table
    from controlplane.cli.request_output import live_table

    if live.requests:
        print_table(live_table(live))
    else:
        say("no request is in flight", is_error=True)
    for line in silent_gateways(live):
        say(line, is_error=True)


def get_live(url: str, answer: Any, wanted: Wanted | None = None) -> "LiveRequests":
    """The live list that was answered, without what is not wanted."""
    from controlplane.api.live import LiveRequests

    live = convert_answer(url, answer, LiveRequests)
    if wanted is None:
        return live
    pairs = ("deployment", "request_class", "tenant")
    kept = [
        each
        for each in live.requests
        if all(getattr(wanted, name) in (None, getattr(each, name)) for name in pairs)
    ]
    return replace(live, requests=kept)


def silent_gateways(live: "LiveRequests") -> list[str]:
    """One line for each gateway whose requests are missing from the list."""
    if not live.gateways:
        return ["no gateway has reported: whether anything is in flight is unknown"]
    return [
        f"gateway {each.name} does not answer ({each.error}): its requests are missing here"
        for each in live.gateways
        if each.error is not None
    ]


def _say_all(url: str, wanted: Wanted) -> None:
    """One line a request, page after page: never more than one page in memory."""
    from controlplane.api.request_views import RequestPage
    from controlplane.cli.paging import share_done

    parameters = wanted.parameters
    count, newest = 0, None
    with progress_bar() as bar:
        while True:
            answer = get_json(url, _PATH, limit=MAX_LIMIT, **parameters)
            page = convert_answer(url, answer, RequestPage)
            for each in answer["requests"]:
                say_json(each, is_line=True)
            count += len(page.requests)
            if page.next is None:
                break
            newest = newest or page.requests[0].arrived_at_unix_ns
            reached = page.requests[-1].arrived_at_unix_ns
            bar.advance(f"{count:,} requests", share_done(wanted.since, newest, reached))
            parameters = {**wanted.parameters, "after": page.next}
    if count == 0:
        say(_nothing(wanted), is_error=True)


def _watch(look: "Callable[[], RenderableType]", interval: float) -> None:
    from controlplane.cli.watching import watch_until_interrupted

    watch_until_interrupted(look, interval)


def _look(url: str, wanted: Wanted, limit: int, is_live: bool) -> "RenderableType":
    """What --watch shows."""
    from rich.console import Group
    from rich.text import Text

    from controlplane.api.request_views import RequestPage
    from controlplane.cli.request_output import live_table, request_table
    from controlplane.cli.terminal import printable

    if is_live:
        live = get_live(url, get_json(url, f"{_PATH}/live"), wanted)
        notes = [f"{len(live.requests)} in flight", *silent_gateways(live)]
        return Group(live_table(live), *(Text(printable(note), style="dim") for note in notes))
    page = convert_answer(url, get_json(url, _PATH, limit=limit, **wanted.parameters), RequestPage)
    return request_table(page) if page.requests else Text(_nothing(wanted), style="dim")


def _nothing(wanted: Wanted) -> str:
    return "no request matches" if wanted.parameters else "no request has ended yet"
