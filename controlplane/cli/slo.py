"""`pilothouse slo`: how promises stand, and the rules for Prometheus that contracts make."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.completion_words import complete_deployments
from controlplane.cli.dashboards import dashboards
from controlplane.cli.examples import examples
from controlplane.cli.options import check_console_url, table_option
from controlplane.cli.output_file import check_folder, write_file
from controlplane.cli.slo_presets import presets_command
from controlplane.cli.slo_silence import maintenance, silence, silences, unsilence
from controlplane.cli.slo_test_alert import alerting, test_alert
from controlplane.cli.terminal import say, say_json

if TYPE_CHECKING:
    from controlplane.api.slo_views import RulesView

_PATH = "/api/v1/slo"


@click.group()
def slo() -> None:
    """Show how objectives stand, and print the rules that they make.

    An SLOContract is the one document that all of it is made of; `presets` are some to begin with.
    Error budgets are of its window; a burn rate of 1 spends a budget in exactly that time, and
    alerts have four grades, from page_quick (2 % of a 30-day budget in an hour) to ticket_slow
    (10 % in three days).
    """


@slo.command(
    epilog=examples(
        ("pilothouse slo status", "every promise of every deployment"),
        ("pilothouse slo status chat -o json", "one deployment's, with all windows"),
    )
)
@click.argument("deployment", required=False, shell_complete=complete_deployments)
@table_option("what the API answers.")
@url_option
def status(deployment: str | None, output: str, url: str) -> None:
    """Show states, burn rates and what is left of each error budget.

    From the control plane's own exact counts, with or without a Prometheus. A state is ok,
    breaching, insufficient_data (too few requests to judge) or no_data (no gateway was heard).
    """
    wanted = {} if deployment is None else {"deployment": deployment}
    answer = get_json(url, _PATH, **wanted)
    if output == "json":
        say_json(answer)
        return
    from controlplane.api.slo_views import StandingList
    from controlplane.cli.fitted_table import print_table
    from controlplane.cli.slo_output import standing_table, status_notes

    view = convert_answer(url, answer, StandingList)
    if view.standings:
        print_table(standing_table(view))
    for note in status_notes(view):
        say(note)


@slo.command(
    epilog=examples(
        ("pilothouse slo render chat", "the rules that the contract chat makes"),
        (
            "pilothouse slo render chat --out rules/slo-chat.rules.yml",
            "the same into a file that Prometheus reads",
        ),
        (
            "pilothouse slo render --common counting",
            "those that count, the same for all",
        ),
        ("pilothouse slo render --common static", "alerts for what no objective covers"),
        (
            "pilothouse slo render --common alertmanager"
            " --credentials-file /etc/alertmanager/key/alertmanager.key"
            " --watchdog-url-file /etc/alertmanager/key/watchdog-url",
            "who hears of them",
        ),
    )
)
@click.argument("name", required=False)
@click.option(
    "--common",
    type=click.Choice(["counting", "static", "alertmanager"]),
    help="Instead of a contract's: the rules that count, alerts for what no objective covers, or "
    "the configuration of an Alertmanager that delivers them to --url.",
)
@click.option(
    "--console-url",
    callback=check_console_url,
    help="Of NAME or --common static: where alerts lead to, as browsers reach the console. "
    "Default: --url.",
)
@click.option(
    "--credentials-file",
    metavar="PATH",
    help="Of --common alertmanager: where, on its machine, the key lies that it shows the control "
    "plane (role alertmanager). Default: it shows none.",
)
@click.option(
    "--watchdog-url-file",
    metavar="PATH",
    help="Of --common alertmanager: where, on its machine, the address lies of the service outside "
    "that calls you when the watchdog stops coming. Alertmanager 0.26 or newer.",
)
@click.option(
    "--out",
    "path",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write them there instead of printing them.",
)
@url_option
def render(
    name: str | None,
    common: str | None,
    console_url: str | None,
    credentials_file: str | None,
    watchdog_url_file: str | None,
    path: Path | None,
    url: str,
) -> None:
    """Print Prometheus' rules of the contract called NAME: burn rates, budgets and alerts.

    They are made for every deployment under it, of the revision that is desired there, which each
    alert tells. Those of `--common counting` are needed besides. An alert that could never fire at
    its target is left out, and a threshold that an engine's histogram cannot tell is judged at a
    smaller one: both are said on standard error.
    """
    from controlplane.api.slo_views import RulesView

    if (name is None) is (common is None):
        raise click.UsageError("give the NAME of a contract, or --common")
    if path is not None:
        check_folder(path)
    of = f"common-rules/{common}" if name is None else f"rules/{quote(name, safe='')}"
    files = {"credentials_file": credentials_file, "watchdog_url_file": watchdog_url_file}
    if common != "alertmanager" and any(files.values()):
        raise click.UsageError("a file of Alertmanager's machine goes with --common alertmanager")
    if console_url is not None and common in ("counting", "alertmanager"):
        raise click.UsageError(
            f"--console-url goes with NAME or --common static: nothing in --common {common} leads "
            "to the console; where alerts are delivered is --url"
        )
    asked = {"console_url": console_url, **files}
    wanted = {key: value for key, value in asked.items() if value is not None}
    _tell(convert_answer(url, get_json(url, f"{_PATH}/{of}", **wanted), RulesView), path)


def _tell(view: "RulesView", path: Path | None) -> None:
    """Into the file or printed, and apart from it what is not in them."""
    if path is None:
        say(view.rules.rstrip("\n"))
    else:
        write_file(path, view.rules)
    for sentence in view.left_out:
        say(f"note: {sentence}", is_error=True)


slo.add_command(presets_command)
slo.add_command(dashboards)
slo.add_command(test_alert)
slo.add_command(alerting)
for _command in (silence, maintenance, silences, unsilence):
    slo.add_command(_command)
