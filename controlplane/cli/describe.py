"""`pilothouse describe` and `pilothouse diff`: one thing, whole."""

from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from controlplane.cli.answers import (
    ChangeAnswer,
    GatewaysAnswer,
    HeldAnswer,
    HoldsAnswer,
    ReplicasAnswer,
)
from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.completion_words import complete_names, complete_resources
from controlplane.cli.described import (
    choose,
    differences,
    document_facts,
    gateway_facts,
    replica_facts,
)
from controlplane.cli.documents import get_history, get_revision
from controlplane.cli.examples import examples
from controlplane.cli.kind_type import KindType
from controlplane.cli.options import output_option
from controlplane.cli.resources import Resource, find_resource
from controlplane.cli.terminal import say, say_json

if TYPE_CHECKING:
    from controlplane.specs.kind import Kind

_MAX_HISTORY = 1000


@click.command(
    epilog=examples(
        ("pilothouse describe deployment chat", "what is wanted, what runs, and what changed"),
        ("pilothouse describe policy chat@3", "how revision 3 was, and what it changed"),
        ("pilothouse describe replica chat-7f", "one replica; the beginning of its id will do"),
        ("pilothouse describe gateway gateway-0", "what a gateway last reported"),
    )
)
@click.argument("what", shell_complete=complete_resources)
@click.argument("name", shell_complete=complete_names)
@output_option
@url_option
def describe(what: str, name: str, output: str, url: str) -> None:
    """Show one document, replica or gateway, whole.

    WHAT is a kind, replica or gateway. A document is shown with its history and with what it
    changed of the revision before; NAME may pin one: chat@3.
    """
    resource = find_resource(what)
    is_json = output == "json"
    match resource:
        case Resource.REPLICAS if is_json:
            say_json(replica_facts(url, name))
        case Resource.REPLICAS:
            say(_replica(url, name))
        case Resource.GATEWAYS if is_json:
            say_json(gateway_facts(url, name))
        case Resource.GATEWAYS:
            say(_gateway(url, name))
        case Resource():
            raise click.UsageError(f"{resource} are listed: pilothouse get {resource}")
        case _ if is_json:
            say_json(document_facts(url, resource, name))
        case _:
            say(_document(url, resource, name))


@click.command(
    epilog=examples(
        ("pilothouse diff policy chat 2 3", "what revision 3 changed"),
        ("pilothouse diff policy chat 1", "from revision 1 to the latest"),
    )
)
@click.argument("kind", type=KindType())
@click.argument("name", shell_complete=complete_names)
@click.argument("from_number", metavar="FROM", type=click.IntRange(min=1))
@click.argument("to_number", metavar="[TO]", type=click.IntRange(min=1), required=False)
@output_option
@url_option
def diff(
    kind: "Kind", name: str, from_number: int, to_number: int | None, output: str, url: str
) -> None:
    """Say what differs between two revisions of a document, place by place.

    FROM and TO are numbers of revisions; without TO, the latest. Quantities are compared in one
    spelling, so that 0.3s and 300ms are the same.
    """
    from controlplane.cli.config_output import describe_difference

    if "@" in name:
        raise click.UsageError("diff takes a bare name: the numbers follow it")
    before, _ = get_revision(url, kind, f"{name}@{from_number}")
    after, _ = get_revision(url, kind, name if to_number is None else f"{name}@{to_number}")
    if output == "json":
        say_json(differences(before, after))
        return
    say(describe_difference(before, after).rstrip("\n"))


def _document(url: str, kind: "Kind", name: str) -> str:
    from controlplane.cli.config_output import (
        describe_changes,
        describe_difference,
        describe_revision,
        history_table,
    )
    from controlplane.cli.replica_output import deployment_replicas
    from controlplane.cli.terminal import indented
    from controlplane.specs.kind import Kind

    revision, _ = get_revision(url, kind, name)
    history, _ = get_history(url, kind, name)
    text = describe_revision(revision)
    if kind is Kind.DEPLOYMENT:
        text += _hold(url, revision.name)
        path = "/api/v1/replicas"
        answer = get_json(url, path, deployment=revision.name, limit=0)
        seen = convert_answer(url, answer, ReplicasAnswer)
        text += deployment_replicas(seen.replicas, seen.as_of_unix_ns)
        answer = get_json(url, f"/api/v1/deployments/{quote(revision.name, safe='')}/changes")
        text += describe_changes(convert_answer(url, answer, list[ChangeAnswer]))
    text += f"Revisions:\n{indented(history_table(history))}"
    earlier = [each for each in history if each.number < revision.number]
    if earlier:
        text += describe_difference(earlier[0], revision)
    return text.rstrip("\n")


def _hold(url: str, deployment: str) -> str:
    """Why it gets no replicas, where it gets none: the operator's own words."""
    answer = convert_answer(url, get_json(url, "/api/v1/deployments"), HoldsAnswer)
    held = [each for each in answer.deployments if each.name == deployment and each.hold]
    return "".join(f"Held: {each.hold}{_retry(each)}\n" for each in held)


def _retry(held: HeldAnswer) -> str:
    from controlplane.cli.terminal import instant

    at = held.retry_at_unix_ns
    return "" if at is None else f" (tried again at {instant(at)})"


def _replica(url: str, name: str) -> str:
    from controlplane.cli.replica_output import describe_ended_replica, describe_replica

    answer = get_json(url, "/api/v1/replicas", limit=_MAX_HISTORY)
    found = convert_answer(url, answer, ReplicasAnswer)
    known = {each.replica_id for each in found.replicas}
    known |= {each.replica_id for each in found.history}
    replica_id = choose("replica", name, known)
    history = [each for each in found.history if each.replica_id == replica_id]
    for each in found.replicas:
        if each.replica_id == replica_id:
            return describe_replica(each, history, found.as_of_unix_ns).rstrip("\n")
    return describe_ended_replica(replica_id, history).rstrip("\n")


def _gateway(url: str, name: str) -> str:
    from controlplane.cli.replica_output import describe_gateway

    found = convert_answer(url, get_json(url, "/api/v1/gateways"), GatewaysAnswer).gateways
    chosen = choose("gateway", name, {each.name for each in found})
    # Two while one process hands over to the next.
    texts = [describe_gateway(each).rstrip("\n") for each in found if each.name == chosen]
    return "\n\n".join(texts)
