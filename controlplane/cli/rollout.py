"""`pilothouse rollout`: how a deployment moves to other revisions, and what people ask of that."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.client import convert_answer, get_json, post_json, url_option
from controlplane.cli.completion_words import complete_deployments, complete_rollouts
from controlplane.cli.examples import examples
from controlplane.cli.options import Command, table_option
from controlplane.cli.terminal import say, say_json

if TYPE_CHECKING:
    from controlplane.api.rollout_views import RolloutDetail

_PATH = "/api/v1/rollouts"
output_option = table_option("what the API answers.")
number_argument = click.argument(
    "number", metavar="NUMBER", type=click.IntRange(1, 2**63 - 1), shell_complete=complete_rollouts
)


@click.group()
def rollout() -> None:
    """Follow rollouts, and say how they go on.

    A Deployment with `rollout` moves to another Model, EngineConfig or AdmissionPolicy in steps:
    the candidate gets a share of the traffic, its requests are compared with those of the stable
    arm, and it goes on, or back, by itself. To ask something of a rollout needs the role operator.
    """


@rollout.command(
    "list",
    epilog=examples(
        ("pilothouse rollout list", "what is under way"),
        ("pilothouse rollout list --all --deployment chat", "what was, of one deployment"),
    ),
)
@click.option("--all", "include_ended", is_flag=True, help="Those that are over as well.")
@click.option(
    "--deployment", metavar="NAME", shell_complete=complete_deployments, help="Only its own."
)
@output_option
@url_option
def list_(include_ended: bool, deployment: str | None, output: str, url: str) -> None:
    """List rollouts, the newest first."""
    from controlplane.api.rollout_views import RolloutList
    from controlplane.cli.rollout_output import NONE_THERE, rollout_table

    answer = get_rollouts(url, include_ended=include_ended, deployment=deployment)
    if output == "json":
        say_json(answer)
        return
    none = "there was no rollout yet" if include_ended else NONE_THERE
    say(rollout_table(convert_answer(url, answer, RolloutList).rollouts, none))


def get_rollouts(
    url: str, *, include_ended: bool, deployment: str | None = None, limit: int = 1000
) -> Any:
    """The list as the API answers with it."""
    asked: dict[str, str | int] = {"living": str(not include_ended).lower(), "limit": limit}
    if deployment is not None:
        asked["deployment"] = deployment
    return get_json(url, _PATH, **asked)


@rollout.command(
    epilog=examples(
        ("pilothouse rollout show 3", "steps, arms, analysis and history"),
        ("pilothouse rollout show 3 -o json", "for programs"),
    )
)
@number_argument
@output_option
@url_option
def show(number: int, output: str, url: str) -> None:
    """Show the rollout with that NUMBER, whole."""
    from controlplane.cli.rollout_output import rollout_text

    answer = get_json(url, f"{_PATH}/{number}")
    if output == "json":
        say_json(answer)
    else:
        say(rollout_text(_detail(url, answer)))


@rollout.command(
    epilog=examples(
        ("pilothouse rollout watch 3", "each move, until it is promoted or aborted"),
        ("pilothouse rollout watch 3 -o json", "each as a line of JSON"),
    )
)
@number_argument
@click.option(
    "--interval",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@output_option
@url_option
def watch(number: int, interval: float, output: str, url: str) -> None:
    """Print what a rollout did, and each move of it as it comes, until it is over.

    Ends with exit code 0 once it is promoted, with 1 once it is aborted.
    """
    from controlplane.cli.rollout_following import follow

    follow(url, number, interval, is_json=output == "json")


def _demand_options(command: Command) -> Command:
    """Those of every demand."""
    options: tuple[Callable[[Command], Command], ...] = (
        number_argument,
        click.option(
            "--reason", required=True, help="Why; it stands in its history and in the audit."
        ),
        click.option(
            "--step",
            type=click.IntRange(1, 1000),
            metavar="STEP",
            help="Only if it is still at this step; default: wherever it is.",
        ),
        click.option("--dry-run", is_flag=True, help="Show what that would do, and do nothing."),
        output_option,
        url_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@rollout.command(
    epilog=examples(
        (
            "pilothouse rollout promote 3 --reason 'looks well' --dry-run",
            "what that would do",
        ),
        ("pilothouse rollout promote 3 --step 2 --reason 'looks well'", "if it is at step 2"),
    )
)
@_demand_options
def promote(number: int, **asked: Any) -> None:
    """Go on to the next step, whatever the analysis says; after the last, for good."""
    _demand("promote", number, **asked)


@rollout.command(epilog=examples(("pilothouse rollout pause 3 --reason 'lunch'", "at this share")))
@_demand_options
def pause(number: int, **asked: Any) -> None:
    """Stay at this step until somebody says how it goes on.

    A candidate that is found worse goes back all the same.
    """
    _demand("pause", number, **asked)


@rollout.command(epilog=examples(("pilothouse rollout resume 3 --reason 'back'", "go on")))
@_demand_options
def resume(number: int, **asked: Any) -> None:
    """Go on with the step at which it is paused."""
    _demand("resume", number, **asked)


@rollout.command(
    epilog=examples(("pilothouse rollout abort 3 --reason 'answers are odd'", "back to stable"))
)
@_demand_options
def abort(number: int, **asked: Any) -> None:
    """Go back to what ran before, at once."""
    _demand("abort", number, **asked)


@rollout.command(
    epilog=examples(("pilothouse rollout retry 3 --reason 'the node is mended'", "once more"))
)
@_demand_options
def retry(number: int, **asked: Any) -> None:
    """Begin another rollout of what was aborted.

    What an aborted rollout tried is not tried again by itself, whoever applies it.
    """
    _demand("retry", number, **asked)


def _demand(
    asked: str,
    number: int,
    *,
    reason: str,
    step: int | None,
    dry_run: bool,
    output: str,
    url: str,
) -> None:
    from controlplane.api.rollout_views import RolloutPlan
    from controlplane.cli.rollout_output import plan_lines, state_line

    if dry_run:
        answer = get_json(url, f"{_PATH}/{number}/plan", asked=asked)
        text = "\n".join(plan_lines(convert_answer(url, answer, RolloutPlan)))
    else:
        answer = post_json(url, f"{_PATH}/{number}/{asked}", {"reason": reason, "step": step})
        text = state_line(_detail(url, answer))
    if output == "json":
        say_json(answer)
    else:
        say(text)


def _detail(url: str, answer: Any) -> "RolloutDetail":
    from controlplane.api.rollout_views import RolloutDetail

    return convert_answer(url, answer, RolloutDetail)
