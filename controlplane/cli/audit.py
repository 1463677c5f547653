"""`pilothouse audit`: who changed what, when and why, and who logged in."""

from typing import Any

import click

from controlplane.cli.answers import AuditAnswer, AuditEventAnswer
from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.options import table_option
from controlplane.cli.progress import Progress, progress_bar
from controlplane.cli.terminal import continued, indented, instant, say, say_json, table

_PAGE = 1000


@click.command(
    epilog=examples(
        ("pilothouse audit --since 1d", "what was changed today"),
        ("pilothouse audit --subject Deployment/chat --diff", "with what differs"),
        ("pilothouse audit --action login --since 1d", "who logged in, and who could not"),
        ("pilothouse audit --all -o json > audit.jsonl", "everything, a JSON line each"),
    )
)
@click.option("--actor", help="Only by this person or program.")
@click.option("--action", help="Only this, as config.update, or its first part, as config.")
@click.option("--subject", help="Only of this, as Deployment/chat, or its kind, as key.")
@click.option("--since", help="An age such as 6h or 2d, or an ISO 8601 time.")
@click.option("--until", help="The same.")
@click.option(
    "--limit",
    type=click.IntRange(1, _PAGE),
    default=50,
    show_default=True,
    help="How many, the newest first.",
)
@click.option("--all", "is_all", is_flag=True, help="Everything, whatever --limit says.")
@click.option("--diff", "with_diff", is_flag=True, help="Say what differs.")
@table_option("a line for each change, with all that it was before and after.")
@url_option
def audit(
    actor: str | None,
    action: str | None,
    subject: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    is_all: bool,
    with_diff: bool,
    output: str,
    url: str,
) -> None:
    """List every change and every login with its actor and reason, the newest first.

    The list can only grow: nothing and nobody changes or deletes what stands in it. Of logins that
    fail, the first of a kind within five minutes stands there at once, and, when these are over and
    there were more, how many there were in all, the first included: so nobody can fill it.
    """
    given = {
        "actor": actor, "action": action, "subject": subject, "since": since, "until": until,
    }  # fmt: skip
    wanted = {name: value for name, value in given.items() if value is not None}
    with progress_bar() as progress:
        events, has_more = _read(url, wanted, None if is_all else limit, progress)
    if output == "json":
        for event in events:
            say_json(event, is_line=True)
        return
    page = convert_answer(url, {"events": events, "next": None}, AuditAnswer)
    if not page.events:
        say("no change matches" if wanted else "nothing was ever changed", is_error=True)
        return
    say(_with_diffs(page.events) if with_diff else _table(page.events))
    if has_more:
        say(f"the newest {limit}; there are more (--all, --since)", is_error=True)


def _read(
    url: str, wanted: dict[str, str], limit: int | None, progress: Progress
) -> tuple[list[Any], bool]:
    events: list[Any] = []
    after: dict[str, int] = {}
    while True:
        size = _PAGE if limit is None else limit
        page = get_json(url, "/api/v1/audit", limit=size, **wanted, **after)
        convert_answer(url, page, AuditAnswer)
        events += page["events"]
        if page["next"] is None or limit is not None:
            return events, page["next"] is not None
        progress.advance(f"{len(events):,} changes")
        after = {"after": page["next"]}


def _table(events: list[AuditEventAnswer]) -> str:
    rows = [("WHEN", "WHO", "WHAT", "OF", "REASON")]
    rows += [
        (instant(each.at_unix_ns), each.actor, each.action, each.subject, each.reason or "-")
        for each in events
    ]
    return table(rows)


def _with_diffs(events: list[AuditEventAnswer]) -> str:
    return "\n".join(
        f"{instant(each.at_unix_ns)}  {each.actor}  {each.action}  {each.subject}"
        + (f"  ({continued(each.reason, '    ')})" if each.reason else "")
        + "\n"
        + indented("\n".join(continued(change, "  ") for change in each.changes))
        for each in events
    ).rstrip()
