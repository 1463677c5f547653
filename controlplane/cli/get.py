"""`pilothouse get`: lists of everything the control plane holds or sees."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.answers import GatewaysAnswer, ReplicasAnswer, RevisionAnswer
from controlplane.cli.client import convert_answer, get_json, url_option
from controlplane.cli.completion_words import complete_names, complete_resources
from controlplane.cli.documents import get_documents, get_history, get_revision
from controlplane.cli.examples import examples
from controlplane.cli.happenings import get_happenings, happening_table
from controlplane.cli.resources import Resource, find_resource
from controlplane.cli.terminal import say, say_json

if TYPE_CHECKING:
    from controlplane.specs.kind import Kind

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a get found."""

    answer: Any
    """As the API has it; what json and yaml print."""
    text: Callable[[bool], str]
    """The table; True for a wide one."""
    are_documents: bool = False


@click.command(
    epilog=examples(
        ("pilothouse get", "every document"),
        ("pilothouse get deployments 'chat*' -o wide", "those whose name begins so"),
        ("pilothouse get policy chat -o yaml", "one document, ready to be edited and applied"),
        ("pilothouse get replicas", "what runs, of all deployments"),
        ("pilothouse get revisions policy chat", "every version of one document"),
        ("pilothouse get events --limit 20", "what happened last"),
        ("pilothouse get overrides", "break-glass that is in force"),
        ("pilothouse get rollouts", "what is under way"),
    )
)
@click.argument("what", required=False, shell_complete=complete_resources)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="wide: more columns; json: what the API answers; yaml: documents to be applied again.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Of events: how many, the newest first.",
)
@url_option
def get(what: str | None, names: tuple[str, ...], output: str, limit: int, url: str) -> None:
    """List documents of a kind, replicas, gateways, rollouts, overrides, revisions or events.

    WHAT is a kind (Models, EngineConfigs, SLOContracts, AdmissionPolicies, Tenants,
    Deployments), or replicas, gateways, events, overrides (those in force; the others are in
    `pilothouse override list --all`), rollouts (those under way; the others are in `pilothouse
    rollout list --all`), or revisions followed by a kind and a name.
    Without it: every document. NAME keeps those of that name; it may have * and ?. Events are
    kept by the name of their deployment, those of gateways and control planes by their own;
    overrides and rollouts by the name of their deployment too.
    Changes of everything else, such as keys and users, are
    in `pilothouse audit`.
    """
    resource = None if what is None else find_resource(what)
    listing = _find(url, resource, names, limit)
    if output == "json":
        say_json(listing.answer)
    elif output == "yaml":
        _say_yaml(listing)
    else:
        say(listing.text(output == "wide"))


def _find(
    url: str, resource: "Resource | Kind | None", names: Sequence[str], limit: int
) -> Listing:
    match resource:
        case Resource.REPLICAS:
            return _replicas(url, names)
        case Resource.GATEWAYS:
            return _gateways(url, names)
        case Resource.EVENTS:
            return _events(url, names, limit)
        case Resource.REVISIONS:
            return _revisions(url, names)
        case Resource.OVERRIDES:
            return _overrides(url, names)
        case Resource.ROLLOUTS:
            return _rollouts(url, names)
        case _:
            return _documents(url, resource, names)


def _documents(url: str, kind: "Kind | None", names: Sequence[str]) -> Listing:
    if kind is not None and names and not any(map(_is_pattern, names)):
        pairs = [get_revision(url, kind, name) for name in names]
        return _listing_of([found for found, _ in pairs], [answer for _, answer in pairs])
    found, answers = get_documents(url, kind)
    kept = [
        (each, answer)
        for each, answer in zip(found, answers, strict=True)
        if _is_wanted(each.name, names)
    ]
    return _listing_of([each for each, _ in kept], [answer for _, answer in kept], names)


def _revisions(url: str, names: Sequence[str]) -> Listing:
    from controlplane.cli.config_output import history_table

    if len(names) != 2:
        raise click.UsageError("get revisions takes a kind and a name: get revisions policy chat")
    kind = find_resource(names[0])
    if isinstance(kind, Resource):
        raise click.UsageError(f"only documents have revisions, {kind} have none")
    history, answer = get_history(url, kind, names[1])
    return Listing(answer=answer, text=lambda _: history_table(history), are_documents=True)


def _replicas(url: str, names: Sequence[str]) -> Listing:
    from controlplane.cli.replica_output import replica_table
    from controlplane.cli.stray_output import stray_table, unseen_strays

    answer = get_json(url, "/api/v1/replicas", limit=0)
    found = convert_answer(url, answer, ReplicasAnswer)
    kept = [each for each in found.replicas if _is_wanted(each.replica_id, names)]
    answers = [each for each in answer["replicas"] if _is_wanted(each["replica_id"], names)]
    strays = [each for each in found.strays if _is_wanted(each.process.replica_id, names)]
    as_of = found.as_of_unix_ns

    def text(is_wide: bool) -> str:
        unseen = unseen_strays(found.strays_unseen)
        return replica_table(kept, as_of, is_wide=is_wide) + stray_table(strays, as_of) + unseen

    return Listing(answer=answers, text=text)


def _gateways(url: str, names: Sequence[str]) -> Listing:
    from controlplane.cli.replica_output import gateway_table

    answer = get_json(url, "/api/v1/gateways")
    found = convert_answer(url, answer, GatewaysAnswer)
    kept = [each for each in found.gateways if _is_wanted(each.name, names)]
    refused = [each for each in found.refused if _is_wanted(each.name, names)]
    answers = [each for each in answer["gateways"] if _is_wanted(each["name"], names)]
    return Listing(
        answer=answers, text=lambda is_wide: gateway_table(kept, refused, is_wide=is_wide)
    )


def _events(url: str, names: Sequence[str], limit: int) -> Listing:
    found = get_happenings(url, limit)
    kept = [each for each in found if _is_wanted(each.deployment or each.process or "", names)]
    return Listing(answer=[asdict(each) for each in kept], text=lambda _: happening_table(kept))


def _overrides(url: str, names: Sequence[str]) -> Listing:
    from controlplane.api.override_views import OverrideList
    from controlplane.cli.override import get_overrides
    from controlplane.cli.override_output import override_table

    answer = get_overrides(url, include_ended=False)
    found = convert_answer(url, answer, OverrideList).overrides
    kept = [each for each in found if _is_about(each.deployment, names)]
    answers = [each for each in answer["overrides"] if _is_about(each["deployment"], names)]
    return Listing(answer=answers, text=lambda _: override_table(kept))


def _is_about(deployment: str | None, names: Sequence[str]) -> bool:
    """One that names no deployment is about every one."""
    return deployment is None or _is_wanted(deployment, names)


def _rollouts(url: str, names: Sequence[str]) -> Listing:
    from controlplane.api.rollout_views import RolloutList
    from controlplane.cli.rollout import get_rollouts
    from controlplane.cli.rollout_output import rollout_table

    answer = get_rollouts(url, include_ended=False)
    found = convert_answer(url, answer, RolloutList).rollouts
    kept = [each for each in found if _is_wanted(each.deployment, names)]
    answers = [each for each in answer["rollouts"] if _is_wanted(each["deployment"], names)]
    return Listing(answer=answers, text=lambda _: rollout_table(kept))


def _listing_of(
    revisions: list[RevisionAnswer], answers: list[Any], names: Sequence[str] = ()
) -> Listing:
    from controlplane.cli.config_output import revision_table

    def text(is_wide: bool) -> str:
        if names and not revisions:
            return f"no document is called {' or '.join(names)}"
        return revision_table(revisions, is_wide=is_wide)

    return Listing(answer=answers, text=text, are_documents=True)


def _say_yaml(listing: Listing) -> None:
    from controlplane.cli.config_output import documents_as_yaml

    if not listing.are_documents:
        raise click.UsageError("only documents are written as yaml; use -o json")
    say(documents_as_yaml([each["document"] for each in listing.answer]).rstrip("\n"))


def _is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_pattern(name: str) -> bool:
    return not _WILDCARDS.isdisjoint(name)
