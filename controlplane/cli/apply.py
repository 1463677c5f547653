"""`pilothouse apply`: files become the desired state."""

from pathlib import Path
from typing import Any

import click

from controlplane.cli.author import default_author
from controlplane.cli.client import convert_answer, post_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.options import check_duration, files_option
from controlplane.cli.terminal import say


@click.command(
    epilog=examples(
        ("pilothouse apply -f conf/ --reason 'first install'", "a folder, whole"),
        ("pilothouse apply -f policy.yaml --dry-run", "check and say what would change"),
        ("pilothouse apply -f -", "documents on standard input"),
        ("pilothouse apply --plan policy.plan --watch", "exactly what a plan said; follow it"),
    )
)
@files_option(required=False)
@click.option(
    "--plan",
    "plan_from",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Instead of -f: what `pilothouse plan --save FILE` kept, exactly. It is refused, with "
    "what has moved, where the world is not any more as it was planned.",
)
@click.option("--reason", default="", help="Why; it stays with the revisions.")
@click.option("--author", default=None, help="Who; by default the user who runs this.")
@click.option("--dry-run", is_flag=True, help="Check and say what would change; change nothing.")
@click.option(
    "--watch",
    is_flag=True,
    help="Then follow the deployments that this moves, until all are settled or a rollout has "
    "ended; Ctrl-C ends the watching and takes nothing back.",
)
@click.option(
    "--timeout",
    default="30m",
    show_default=True,
    metavar="TIME",
    callback=check_duration,
    help="With --watch: for how long at most, as 90s or 2h.",
)
@url_option
def apply(
    files: tuple[str, ...],
    plan_from: Path | None,
    reason: str,
    author: str | None,
    dry_run: bool,
    watch: bool,
    timeout: str,
    url: str,
) -> None:
    """Make what the files say the desired state: all of it, or nothing.

    Every document becomes a numbered revision; one that says what it said before stays as it
    is. With a mistake anywhere, exit code 2: every mistake is named with its place, and nothing
    was applied. `pilothouse plan` says beforehand what it would do.

    With --watch the status is 0 where every deployment has come to what is desired of it, and 1
    where a rollout was aborted, or the time was over.
    """
    from controlplane.cli.apply_watch import Watch

    if bool(files) == (plan_from is not None):
        raise click.UsageError("give either files with -f, or a saved plan with --plan")
    body = _body(files, plan_from) | {
        "author": author or default_author(),
        "reason": reason,
        "dry_run": dry_run,
    }
    watched = Watch(url) if watch and not dry_run else None
    _send(url, body)
    if dry_run:
        say("dry run: nothing was changed")
    if watched is not None:
        raise SystemExit(watched.follow(timeout))


def _body(files: tuple[str, ...], plan_from: Path | None) -> dict[str, Any]:
    """The documents, and of a plan what it rests on."""
    # Imported here: they cost more than the rest of the command line together.
    from controlplane.cli.config_files import read_files
    from controlplane.cli.local_check import check_locally

    if plan_from is None:
        texts, planned = read_files(files), {}
    else:
        from controlplane.cli.plan_file import read_plan

        saved = read_plan(plan_from)
        texts, planned = saved.files, {"plan": saved.body}
    check_locally(texts)
    return {"files": [{"name": name, "text": text} for name, text in texts]} | planned


def _send(url: str, body: dict[str, Any]) -> None:
    from controlplane.cli.answers import ApplyAnswer
    from controlplane.cli.local_check import problem_text, told_problems

    with told_problems(url):
        answer = convert_answer(url, post_json(url, "/api/v1/apply", body), ApplyAnswer)
    for warning in answer.warnings:
        say(f"warning: {problem_text(warning)}", is_error=True)
    for applied in answer.applied:
        say(f"{applied.kind} {applied.revision} {applied.change}")
