"""What is wrong with documents, told the same way whoever finds it: here, without asking anybody,
or the control plane."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from controlplane.cli.answers import ProblemAnswer, RefusalAnswer
from controlplane.cli.client import RefusedError, convert_answer
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.terminal import say
from controlplane.specs.documents import load_documents
from controlplane.specs.problem import Problem


def check_locally(texts: list[tuple[str, str]]) -> None:
    """Ends the command with every mistake, or where there are no documents."""
    local = load_documents(texts)
    if local.problems:
        _refuse([str(problem) for problem in local.problems])
    if not local.documents:
        raise click.UsageError("the files hold no documents")


@contextmanager
def told_problems(url: str) -> Iterator[None]:
    """A call whose refusal lists problems of documents ends the command with them."""
    try:
        yield
    except RefusedError as error:
        if error.status_code == 422 and isinstance(error.body, dict) and "detail" not in error.body:
            refusal = convert_answer(url, error.body, RefusalAnswer)
            _refuse([problem_text(each) for each in refusal.problems])
        raise


def problem_text(problem: ProblemAnswer) -> str:
    """As it is printed."""
    return str(
        Problem(
            file=problem.file,
            line=problem.line,
            column=problem.column,
            key=problem.key,
            message=problem.message,
        )
    )


def _refuse(problems: list[str]) -> NoReturn:
    for problem in problems:
        say(problem, is_error=True)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    say(f"{count}; nothing was applied", is_error=True)
    raise SystemExit(ExitCode.USAGE)
