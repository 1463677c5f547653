"""`pilothouse override`: break-glass, for a time and with a reason."""

from typing import Any
from urllib.parse import quote

import click

from controlplane.cli.client import convert_answer, delete_json, get_json, post_json, url_option
from controlplane.cli.completion_words import complete_deployments
from controlplane.cli.examples import examples
from controlplane.cli.options import check_duration, table_option
from controlplane.cli.terminal import say, say_json

output_option = table_option("what the API answers.")
reason_option = click.option(
    "--reason", required=True, help="Why; everybody sees it until it ends, and it is audited."
)
lasts_option = click.option(
    "--for",
    "lasts",
    metavar="TIME",
    required=True,
    callback=check_duration,
    help="How long, as 30m or 2h; 24h at most without --longer.",
)
longer_option = click.option(
    "--longer", "may_be_longer", is_flag=True, help="It may last for more than 24h, up to 30d."
)
deployment_argument = click.argument("deployment", shell_complete=complete_deployments)


@click.group()
def override() -> None:
    """Pin or bypass a policy, freeze or force a rollout, for a time: break-glass.

    Gateways enforce an override from their snapshot, also while the control plane is away, and
    end it at its time on their own clock. Until then it is on every page of the console, in the
    overview's troubles, and in the record of each request that it touched. To extend one, make
    another; the newest counts. Needs the role operator.
    """


@override.command(
    epilog=examples(
        (
            "pilothouse override pin chat --policy chat@12 --for 2h --reason 'chat@13 sheds all'",
            "enforce an earlier revision",
        ),
        (
            "pilothouse override pin chat --replica chat-7f --for 30m --reason 'others stall'",
            "send new requests to one replica",
        ),
    )
)
@deployment_argument
@click.option("--policy", metavar="NAME@NUMBER", help="Enforce this revision, whatever is desired.")
@click.option(
    "--replica",
    "replicas",
    metavar="ID",
    multiple=True,
    help="Send new requests to this replica alone; may be given several times.",
)
@lasts_option
@longer_option
@reason_option
@output_option
@url_option
def pin(
    deployment: str,
    policy: str | None,
    replicas: tuple[str, ...],
    lasts: str,
    may_be_longer: bool,
    reason: str,
    output: str,
    url: str,
) -> None:
    """Pin DEPLOYMENT to a revision of a policy, or to some of its replicas.

    What runs on other replicas ends there as it would have; only new requests are sent elsewhere.
    """
    if (policy is None) == (not replicas):
        raise click.UsageError("give either --policy or --replica")
    what: dict[str, Any] = (
        {"kind": "pin_replicas", "replicas": list(replicas)}
        if policy is None
        else {"kind": "pin_policy", "policy": policy}
    )
    body = what | {"deployment": deployment, "lasts": lasts, "reason": reason}
    _make(url, body | {"may_be_longer": may_be_longer}, output)


@override.command(
    epilog=examples(
        (
            "pilothouse override bypass chat --class interactive --for 1h --reason 'launch day'",
            "of one class",
        ),
        ("pilothouse override bypass chat --for 15m --reason 'limits too low'", "limits off"),
    )
)
@deployment_argument
@click.option("--class", "request_class", metavar="NAME", help="Only this request class.")
@click.option("--tenant", metavar="NAME", help="Only this tenant.")
@lasts_option
@longer_option
@reason_option
@output_option
@url_option
def bypass(
    deployment: str,
    request_class: str | None,
    tenant: str | None,
    lasts: str,
    may_be_longer: bool,
    reason: str,
    output: str,
    url: str,
) -> None:
    """Lift what refuses, sheds, degrades or gives up requests of DEPLOYMENT.

    What only puts requests in order stays: priorities, weights, and how many run at once. More
    is admitted than the policy allows, so waits grow for everybody who is not in a hurry.
    """
    body = {"kind": "bypass", "deployment": deployment, "lasts": lasts, "reason": reason}
    scope = {"request_class": request_class, "tenant": tenant}
    given = {name: value for name, value in scope.items() if value is not None}
    _make(url, body | given | {"may_be_longer": may_be_longer}, output)


@override.command(
    epilog=examples(
        ("pilothouse override freeze chat --for 8h --reason 'quarter end'", "of one deployment"),
        (
            "pilothouse override freeze --all-deployments --for 8h --reason 'quarter end'",
            "of every one, also of those that come later",
        ),
    )
)
@click.argument("deployment", required=False, shell_complete=complete_deployments)
@click.option(
    "--all-deployments", is_flag=True, help="Of every one, also of those that come later."
)
@lasts_option
@longer_option
@reason_option
@output_option
@url_option
def freeze(
    deployment: str | None,
    all_deployments: bool,
    lasts: str,
    may_be_longer: bool,
    reason: str,
    output: str,
    url: str,
) -> None:
    """Let no rollout of DEPLOYMENT go forward.

    What is under way stays at its step, and still comes back where its candidate does worse.
    """
    if (deployment is None) is not all_deployments:
        raise click.UsageError("give either DEPLOYMENT or --all-deployments")
    of = {"all_deployments": True} if deployment is None else {"deployment": deployment}
    body = {"kind": "freeze", "lasts": lasts, "reason": reason, "may_be_longer": may_be_longer}
    _make(url, body | of, output)


@override.command(
    epilog=examples(
        (
            "pilothouse override force chat --arm stable --for 1h --reason 'looking into it'",
            "away from the candidate, without aborting",
        ),
    )
)
@deployment_argument
@click.option(
    "--arm", type=click.Choice(["stable", "candidate"]), required=True, help="Takes all requests."
)
@lasts_option
@longer_option
@reason_option
@output_option
@url_option
def force(
    deployment: str,
    arm: str,
    lasts: str,
    may_be_longer: bool,
    reason: str,
    output: str,
    url: str,
) -> None:
    """Send all requests of DEPLOYMENT to one arm of its rollout.

    The rollout stays where it is; afterwards its step's share is in force again.
    """
    body = {"kind": "force_arm", "deployment": deployment, "arm": arm, "lasts": lasts}
    _make(url, body | {"reason": reason, "may_be_longer": may_be_longer}, output)


@override.command("list", epilog=examples(("pilothouse override list --all", "ended ones too")))
@click.option("--all", "include_ended", is_flag=True, help="Those that ended as well.")
@output_option
@url_option
def list_(include_ended: bool, output: str, url: str) -> None:
    """List the overrides, the newest first."""
    from controlplane.api.override_views import OverrideList
    from controlplane.cli.override_output import override_table

    answer = get_overrides(url, include_ended)
    if output == "json":
        say_json(answer)
    else:
        say(override_table(convert_answer(url, answer, OverrideList).overrides))


@override.command(
    epilog=examples(("pilothouse override end 9f3a61c2 --reason 'mended'", "at once"))
)
@click.argument("override_id", metavar="ID")
@reason_option
@url_option
def end(override_id: str, reason: str, url: str) -> None:
    """End the override with that ID before its time.

    Gateways follow with the next snapshot, within a second or so.
    """
    from controlplane.api.override_views import OverrideView

    answer = delete_json(url, f"/api/v1/overrides/{quote(override_id, safe='')}", reason=reason)
    ended = convert_answer(url, answer, OverrideView)
    say(f"ended {ended.override_id}: {ended.deployment}: {ended.effect}")


def get_overrides(url: str, include_ended: bool) -> Any:
    """What the API answers."""
    return get_json(url, "/api/v1/overrides", all=str(include_ended).lower(), limit=1000)


def _make(url: str, body: dict[str, Any], output: str) -> None:
    from controlplane.api.override_views import OverrideView
    from controlplane.cli.override_output import override_line

    answer = post_json(url, "/api/v1/overrides", body)
    if output == "json":
        say_json(answer)
    else:
        say(override_line(convert_answer(url, answer, OverrideView)))
