"""`pilothouse slo silence`, `maintenance`, `silences`, `unsilence`: alerts that tell nobody for a
time, and why."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from controlplane.cli.client import convert_answer, delete_json, get_json, post_json, url_option
from controlplane.cli.completion_words import complete_deployments
from controlplane.cli.examples import examples
from controlplane.cli.options import Command, check_duration, table_option
from controlplane.cli.terminal import say, say_json

_PATH = "/api/v1/silences"
output_option = table_option("what the API answers.")


def _scope_options(command: Command) -> Command:
    """Those that both kinds take."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.argument("deployment", required=False, shell_complete=complete_deployments),
        click.option(
            "--all-deployments",
            "everything",
            is_flag=True,
            help="Instead of one: every deployment, and the installation itself.",
        ),
        click.option("--class", "request_class", metavar="NAME", help="Only this request class."),
        click.option("--objective", metavar="NAME", help="Only this: a signal, or together."),
        click.option(
            "--severity", type=click.Choice(["page", "ticket"]), help="Only these; default: both."
        ),
        click.option(
            "--for",
            "lasts",
            metavar="TIME",
            required=True,
            callback=check_duration,
            help="How long, as 30m or 2h; 24h at most without --longer.",
        ),
        click.option(
            "--longer", "may_be_longer", is_flag=True, help="It may last over 24h, up to 30d."
        ),
        click.option(
            "--reason",
            required=True,
            help="Why; it stands beside every alert that it keeps back, and it is audited.",
        ),
        click.option(
            "--dry-run", is_flag=True, help="Show what it would keep back, and make nothing."
        ),
        output_option,
        url_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    epilog=examples(
        (
            "pilothouse slo silence chat --for 2h --reason 'anna is on it'",
            "all alerts of one deployment",
        ),
        (
            "pilothouse slo silence chat --objective ttft --severity ticket --for 8h --reason "
            "'until the new replicas are there' --dry-run",
            "what that would keep back",
        ),
    )
)
@_scope_options
def silence(output: str, url: str, dry_run: bool, **asked: Any) -> None:
    """Tell nobody of DEPLOYMENT's alerts for a time, from now on.

    The alerts fire, their incident is open and the budget is spent as ever, and all of them say
    until when they are silenced and by whom. Notifiers of the control plane keep to it;
    Alertmanager has silences of its own. Needs the role operator.
    """
    _make(url, {"kind": "silence"} | asked, output, dry_run=dry_run)


@click.command(
    epilog=examples(
        (
            "pilothouse slo maintenance chat --from +12h --for 2h --reason 'new disks'",
            "planned ahead",
        ),
        (
            "pilothouse slo maintenance --all-deployments --for 30m --reason 'the switch'",
            "of everything, at once",
        ),
    )
)
@click.option(
    "--from",
    "begins",
    metavar="TIME",
    default="",
    help="As 2026-12-24T02:00 (UTC) or +2h; default: at once. 90 days ahead at most.",
)
@_scope_options
def maintenance(begins: str, output: str, url: str, dry_run: bool, **asked: Any) -> None:
    """Plan work on DEPLOYMENT that will be felt.

    It silences alerts while it lasts, charts mark its time, and what it spends of a budget is told
    apart and stays spent. Needs the role operator.
    """
    from controlplane.api.planned_instant import parse_begin
    from dataplane.clock import wall_clock

    try:
        from_unix_ns = parse_begin(begins, wall_clock())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    body = {"kind": "maintenance", "from_unix_ns": from_unix_ns}
    _make(url, body | asked, output, dry_run=dry_run)


@click.command(epilog=examples(("pilothouse slo silences --all", "those that are over, too")))
@click.option("--all", "include_over", is_flag=True, help="Those that are over as well.")
@output_option
@url_option
def silences(include_over: bool, output: str, url: str) -> None:
    """List silences and maintenance that are in force or planned, the newest first."""
    from controlplane.api.silence_views import SilenceList
    from controlplane.cli.silence_output import silence_table

    answer = get_json(url, _PATH, all=str(include_over).lower(), limit=1000)
    if output == "json":
        say_json(answer)
    else:
        say(silence_table(convert_answer(url, answer, SilenceList).silences))


@click.command(epilog=examples(("pilothouse slo unsilence 9f3a61c2 --reason 'mended'", "at once")))
@click.argument("silence_id", metavar="ID")
@click.option("--reason", required=True, help="Why it ends early; it is audited.")
@url_option
def unsilence(silence_id: str, reason: str, url: str) -> None:
    """End the silence or maintenance with that ID early, or call it off.

    It is kept for the record.
    """
    from controlplane.api.silence_views import SilenceView

    answer = delete_json(url, f"{_PATH}/{quote(silence_id, safe='')}", reason=reason)
    ended = convert_answer(url, answer, SilenceView)
    say(f"ended {ended.silence_id}: {ended.kind} of {ended.what}")


def _make(url: str, asked: dict[str, Any], output: str, *, dry_run: bool) -> None:
    from controlplane.api.silence_views import SilencePlan, SilenceView
    from controlplane.cli.silence_output import plan_lines, silence_line

    if (asked["deployment"] is None) is not asked["everything"]:
        raise click.UsageError("give a DEPLOYMENT, or --all-deployments")
    body = {name: value for name, value in asked.items() if value is not None}
    answer = post_json(url, f"{_PATH}/plan" if dry_run else _PATH, body)
    if output == "json":
        say_json(answer)
    elif dry_run:
        say("\n".join(plan_lines(convert_answer(url, answer, SilencePlan))))
    else:
        say(silence_line(convert_answer(url, answer, SilenceView)))
