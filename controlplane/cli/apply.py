"""`pilothouse apply`: files become the desired state."""

from typing import NoReturn

import click

from controlplane.cli.author import default_author
from controlplane.cli.client import RefusedError, convert_answer, post_json, url_option
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.terminal import say


@click.command(
    epilog=examples(
        ("pilothouse apply -f conf/ --reason 'first install'", "a folder, whole"),
        ("pilothouse apply -f policy.yaml --dry-run", "check and say what would change"),
        ("pilothouse apply -f -", "documents on standard input"),
    )
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    type=click.Path(),
    help="A file, a folder (all its .yaml, .yml and .json files), or - for standard input. May be "
    "given several times.",
)
@click.option("--reason", default="", help="Why; it stays with the revisions.")
@click.option("--author", default=None, help="Who; by default the user who runs this.")
@click.option("--dry-run", is_flag=True, help="Check and say what would change; change nothing.")
@url_option
def apply(files: tuple[str, ...], reason: str, author: str | None, dry_run: bool, url: str) -> None:
    """Make what the files say the desired state: all of it, or nothing.

    Every document becomes a numbered revision; one that says what it said before stays as it
    is. With a mistake anywhere, exit code 2: every mistake is named with its place, and nothing
    was applied.
    """
    # Imported here: they cost more than the rest of the command line together.
    from controlplane.cli.config_files import read_files
    from controlplane.specs.documents import load_documents

    texts = read_files(files)
    local = load_documents(texts)
    if local.problems:
        _refuse([str(problem) for problem in local.problems])
    if not local.documents:
        raise click.UsageError("the files hold no documents")
    body = {
        "files": [{"name": name, "text": text} for name, text in texts],
        "author": author or default_author(),
        "reason": reason,
        "dry_run": dry_run,
    }
    _send(url, body)
    if dry_run:
        say("dry run: nothing was changed")


def _send(url: str, body: dict[str, object]) -> None:
    from controlplane.cli.answers import ApplyAnswer, ProblemAnswer, RefusalAnswer
    from controlplane.specs.problem import Problem

    def text(problem: ProblemAnswer) -> str:
        return str(
            Problem(
                file=problem.file,
                line=problem.line,
                column=problem.column,
                key=problem.key,
                message=problem.message,
            )
        )

    try:
        answer = convert_answer(url, post_json(url, "/api/v1/apply", body), ApplyAnswer)
    except RefusedError as error:
        if error.status_code == 422 and isinstance(error.body, dict) and "detail" not in error.body:
            refusal = convert_answer(url, error.body, RefusalAnswer)
            _refuse([text(problem) for problem in refusal.problems])
        raise
    for warning in answer.warnings:
        say(f"warning: {text(warning)}", is_error=True)
    for applied in answer.applied:
        say(f"{applied.kind} {applied.revision} {applied.change}")


def _refuse(problems: list[str]) -> NoReturn:
    for problem in problems:
        say(problem, is_error=True)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    say(f"{count}; nothing was applied", is_error=True)
    raise SystemExit(ExitCode.USAGE)
