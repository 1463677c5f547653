"""`pilothouse incidents`: what diagnosis found and alerts say is wrong, and who looks after it."""

from typing import Any
from urllib.parse import quote

import click

from controlplane.cli.client import convert_answer, get_json, post_json, url_option
from controlplane.cli.completion_words import complete_deployments, complete_incidents
from controlplane.cli.examples import examples
from controlplane.cli.options import table_option
from controlplane.cli.terminal import say, say_json

_PATHS = {"acknowledge": "acknowledge", "note": "notes", "resolve": "resolve"}


@click.command(
    epilog=examples(
        ("pilothouse incidents", "what is open"),
        ("pilothouse incidents --state resolved --deployment chat", "what was, of one deployment"),
        ("pilothouse incidents 9f3a61c2", "one whole: evidence, changes before it, who is hurt"),
        ("pilothouse incidents 9f3a61c2 --acknowledge 'fewer seats: trying 96'", "say it is yours"),
        ("pilothouse incidents 9f3a61c2 --resolve 'it was a test'", "end it by hand"),
    )
)
@click.argument("incident_id", metavar="[ID]", required=False, shell_complete=complete_incidents)
@click.option(
    "--state",
    type=click.Choice(["open", "resolved", "all"]),
    help="Of a list: which. Default: open.",
)
@click.option(
    "--deployment", metavar="NAME", shell_complete=complete_deployments, help="Of a list: whose."
)
@click.option("--mechanism", metavar="NAME", help="Of a list: what was found, as cache.thrash.")
@click.option(
    "--acknowledge", metavar="WORDS", help="Say that you look after it, and what you do about it."
)
@click.option("--note", metavar="WORDS", help="Add a line to its timeline.")
@click.option(
    "--resolve",
    metavar="WORDS",
    help="Say that it is over, and why. If it is found again soon, or an alert of it still fires, "
    "it is reopened.",
)
@table_option("what the API answers.")
@url_option
def incidents(
    incident_id: str | None,
    state: str | None,
    deployment: str | None,
    mechanism: str | None,
    acknowledge: str | None,
    note: str | None,
    resolve: str | None,
    output: str,
    url: str,
) -> None:
    """List incidents, show one, or say something of it.

    Rules of diagnosis look at every deployment all the time; what they find opens an incident,
    and so does an alert of an objective or of the installation. What is not seen any more and
    fires no more ends it. Of an alert it shows who told it, its figures, and the last requests
    that spent the budget; --deployment '' lists those of the installation itself. Changes are
    listed with their lag before its beginning, which makes none of them its cause. To say something
    of it needs the role operator.
    """
    said = {"acknowledge": acknowledge, "note": note, "resolve": resolve}
    given = {action: words for action, words in said.items() if words is not None}
    filters = {"state": state, "deployment": deployment, "mechanism": mechanism}
    if incident_id is None:
        if given:
            raise click.UsageError(f"--{next(iter(given))} needs the ID of an incident")
        _list(url, filters, output)
        return
    if any(value is not None for value in filters.values()):
        raise click.UsageError("--state, --deployment and --mechanism are of a list: leave out ID")
    if len(given) > 1:
        raise click.UsageError("give one of --acknowledge, --note and --resolve at a time")
    path = f"/api/v1/incidents/{quote(incident_id, safe='')}"
    for action, words in given.items():
        _show(url, post_json(url, f"{path}/{_PATHS[action]}", {"what": words}), output)
        return
    _show(url, get_json(url, path), output)


def _list(url: str, filters: dict[str, str | None], output: str) -> None:
    from controlplane.api.incident_views import IncidentList
    from controlplane.cli.incident_output import incident_table

    state = filters["state"] or "open"
    wanted = {**filters, "state": None if state == "all" else state}
    asked = {name: value for name, value in wanted.items() if value is not None}
    answer = get_json(url, "/api/v1/incidents", limit=1000, **asked)
    if output == "json":
        say_json(answer)
    else:
        say(incident_table(convert_answer(url, answer, IncidentList), state))


def _show(url: str, answer: Any, output: str) -> None:
    from controlplane.api.incident_views import IncidentDetail
    from controlplane.cli.incident_output import incident_text

    if output == "json":
        say_json(answer)
    else:
        say(incident_text(convert_answer(url, answer, IncidentDetail)))
