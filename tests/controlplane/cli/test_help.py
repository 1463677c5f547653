"""Every command and option says what it is for, and every example in help can be run as it is."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from controlplane.cli import COMMANDS, SUMMARIES, main
from controlplane.cli.exit_codes import MEANINGS, ExitCode

Walked = tuple[tuple[str, ...], click.Command]


def walk(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[Walked]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, f"{name} is listed and does not exist"
            yield from walk(inner, (*path, name))


WALKED = list(walk())
EVERY_COMMAND = pytest.mark.parametrize(
    ("path", "command"), WALKED, ids=[" ".join(path) or "pilothouse" for path, _ in WALKED]
)
LEAVES = [(path, command) for path, command in WALKED if not isinstance(command, click.Group)]
EXAMPLE = re.compile(r"pilothouse (?:[^|>)'\"]|'[^']*'|\"[^\"]*\")*")


@EVERY_COMMAND
def test_every_command_says_what_it_does(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help, "write a docstring"
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")
    # A folded first paragraph that ends without a stop was cut by a marker or a typo.
    assert re.search(r"[.:]", command.help.partition("\n\n")[0])


@EVERY_COMMAND
def test_every_option_says_what_it_is_for(path: tuple[str, ...], command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts[0]} has no help"


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_has_examples_that_parse(
    path: tuple[str, ...],
    command: click.Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    _, _, text = (command.epilog or "").partition("Examples:\n")
    lines = text.partition("\n\n")[0].splitlines()
    examples = [found[0] for line in lines if (found := EXAMPLE.search(line))]
    assert examples, "write examples in its epilog (controlplane.cli.examples)"
    shown = set()
    for example in examples:
        of, leaf, rest = resolve(shlex.split(example)[1:])
        shown.add(of)
        leaf.make_context(of[-1], [made(word, tmp_path) for word in rest])
    assert path in shown


def resolve(words: list[str]) -> tuple[tuple[str, ...], click.Command, list[str]]:
    command: click.Command = main
    path: tuple[str, ...] = ()
    if words[0] == "--key-file":
        words = words[2:]
    while isinstance(command, click.Group) and words:
        inner = command.get_command(click.Context(command), words[0])
        if inner is None:
            break
        command, path, words = inner, (*path, words[0]), words[1:]
    return path, command, words


def made(word: str, folder: Path) -> str:
    """A file that an example names and that must exist is made; its place is ours."""
    if word.endswith((".yaml", ".tar.gz")) and "/" not in word:
        (folder / word).touch()
    return word


def test_the_list_of_commands_says_something_of_each_without_importing_it() -> None:
    assert SUMMARIES.keys() == COMMANDS.keys()
    output = CliRunner().invoke(main, ["--help"]).output
    for name, summary in SUMMARIES.items():
        assert re.search(rf"^  {re.escape(name)} +{re.escape(summary[:20])}", output, re.M), name


def test_help_ends_with_the_exit_codes() -> None:
    output = CliRunner().invoke(main, ["--help"]).output

    assert [code.value for code in ExitCode] == [*range(7), 130]
    for code, meaning in MEANINGS.items():
        assert f"    {code.value}  {meaning}\n" in output


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["--help"], {"pydantic", "httpx", "sqlalchemy", "fastapi", "rich", "torch"}),
        (["get", "--help"], {"sqlalchemy", "fastapi", "torch", "httpx", "pydantic", "rich"}),
        (["requests", "--help"], {"sqlalchemy", "fastapi", "torch", "httpx", "rich"}),
        (["explain", "policy"], {"sqlalchemy", "fastapi", "torch", "httpx"}),
        (["completion", "bash"], {"sqlalchemy", "fastapi", "torch", "httpx", "pydantic"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_the_like_start_without_what_they_do_not_need(
    arguments: list[str], forbidden: set[str]
) -> None:
    script = (
        "import sys\nfrom controlplane.cli import main\n"
        "try:\n    main(prog_name='pilothouse')\n"
        "finally:\n    print(*sorted(sys.modules), file=sys.stderr)\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )

    assert forbidden & set(result.stderr.split()) == set()
