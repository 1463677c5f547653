"""`pilothouse slo test-alert` and `slo alerting`: whether anybody would be told."""

import click

from controlplane.cli.client import convert_answer, get_json, post_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.options import table_option
from controlplane.cli.terminal import say, say_json

_PATH = "/api/v1/slo"
_WAIT_SECONDS = 60.0


@click.command(
    "test-alert",
    epilog=examples(
        ("pilothouse slo test-alert", "ask every notifier, and say who answered what"),
        (
            "pilothouse slo test-alert --alertmanager http://127.0.0.1:9093",
            "from Prometheus by Alertmanager to the control plane",
        ),
    ),
)
@click.option(
    "--alertmanager",
    metavar="URL",
    help="Instead: send it by the Alertmanager at this address, and wait until the control plane "
    "has heard of it, and of its end.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=1, max=3600),
    help="With --alertmanager: seconds to wait for each of the two. Default: 60.",
)
@table_option("what the API answers.")
@url_option
def test_alert(alertmanager: str | None, wait_seconds: float | None, output: str, url: str) -> None:
    """Send a marked test alert through every notifier of the control plane.

    Past silences and whatever was told before. Exit code 1: one of them did not take it, or there
    is none. Needs the role operator.

    With --alertmanager it goes the way of Prometheus' alerts instead, and becomes an incident of
    the installation that resolves at once. Exit code 1: it got stuck, and where is said.
    """
    if alertmanager is None and wait_seconds is not None:
        raise click.UsageError("--wait goes with --alertmanager: notifiers answer at once")
    if alertmanager is not None:
        if output == "json":
            raise click.UsageError("--output json is of notifiers, and not of --alertmanager")
        from controlplane.cli.delivered_alert import deliver_test_alert

        deliver_test_alert(alertmanager, url, wait_seconds or _WAIT_SECONDS)
        return
    from controlplane.api.alerting_views import TestedNotifiers

    answer = post_json(url, f"{_PATH}/test-alert", {})
    view = convert_answer(url, answer, TestedNotifiers)
    if output == "json":
        say_json(answer)
    else:
        for each in view.answers:
            word = "arrived" if each.has_arrived else "did not arrive"
            say(f"{each.name} ({each.kind}): {word}: {each.said}")
    if not all(each.has_arrived for each in view.answers):
        raise SystemExit(ExitCode.FAILED)


@click.command(
    epilog=examples(
        ("pilothouse slo alerting", "whether objectives are evaluated, and people are told"),
    )
)
@table_option("what the API answers.")
@url_option
def alerting(output: str, url: str) -> None:
    """Show how the control plane's own alerting goes, and how each notifier fares."""
    from controlplane.api.alerting_views import AlertingView
    from controlplane.cli.slo_alerting_output import alerting_lines

    answer = get_json(url, f"{_PATH}/alerting")
    view = convert_answer(url, answer, AlertingView)
    if output == "json":
        say_json(answer)
        return
    for line in alerting_lines(view):
        say(line)
