"""`pilothouse usage`: who used what, and what it cost."""

import click

from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.completion_words import complete_deployments
from controlplane.cli.examples import examples
from controlplane.cli.options import table_option
from controlplane.cli.terminal import say, say_json

_PATH = "/api/v1/usage"
_GROUPS = ("deployment", "class", "tenant")


@click.command(
    epilog=examples(
        ("pilothouse usage --since 7d --by tenant", "who used what in a week"),
        ("pilothouse usage --tenant acme --by class", "one tenant's use since yesterday, by class"),
        (
            "pilothouse usage --since 2026-11-01 --until 2026-12-01 -o json",
            "a month, whole, for a bill",
        ),
    )
)
@click.option("--deployment", help="Only of this deployment.", shell_complete=complete_deployments)
@click.option("--class", "request_class", help="Only of this request class.")
@click.option("--tenant", help="Only of this tenant.")
@click.option(
    "--since",
    "--from",
    "since",
    default="1d",
    show_default=True,
    help="Arrived since: an age such as 6h or 2d, or an ISO 8601 time (UTC if it has no offset), "
    "to the minute.",
)
@click.option("--until", "--to", "until", help="Arrived before: as --since. Default: now.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(_GROUPS),
    help="What a row is of; may be given several times. Default: all three.",
)
@table_option("what the API answers.")
@url_option
def usage(
    deployment: str | None,
    request_class: str | None,
    tenant: str | None,
    since: str,
    until: str | None,
    by: tuple[str, ...],
    output: str,
    url: str,
) -> None:
    """Show tokens, engine seconds, KV block-seconds and cost, by deployment, class and tenant.

    Engine seconds are a request's part of the steps it was in, as its engine measured them; ~
    before a number says that a part of it is inferred, as if a replica had shared its time evenly.
    The cost is that of all hours of a deployment's replicas by its `replica_price`, idle ones
    included, shared out by engine seconds. What was not measured is unknown, and never 0.
    """
    given = {
        "deployment": deployment,
        "class": request_class,
        "tenant": tenant,
        "since": since,
        "until": until,
        "by": ",".join(by) or None,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    answer = get_json(url, _PATH, **wanted)
    if output == "json":
        say_json(answer)
        return
    from controlplane.api.usage_views import UsageView
    from controlplane.cli.fitted_table import print_table
    from controlplane.cli.usage_output import deployment_table, usage_notes, usage_table

    view = convert_answer(url, answer, UsageView)
    if not view.rows:
        say("nothing was used in that time", is_error=True)
    else:
        print_table(usage_table(view))
    if view.deployments:
        say("")
        print_table(deployment_table(view))
    for note in usage_notes(view):
        say(note, is_error=True)
