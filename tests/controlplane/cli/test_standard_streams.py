"""An answer that is not wholly written fails, in every command and however Python buffers."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.cli.exit_codes import ExitCode

_COMMAND = [sys.executable, "-m", "controlplane.cli"]
_IN_COLOURS = """
import click, sys
from controlplane import cli
@cli.main.command("colours")
def colours():
    from controlplane.cli.terminal import create_console
    create_console().print("a line\\n" * 999)
cli.COMMANDS["colours"] = "__main__:colours"
sys.argv = ["pilothouse", "colours"]
from controlplane.entry import main
main()
"""
_UNBUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"])


def _no_file_over(num_bytes: int) -> Callable[[], None]:
    """A disk that has room for so much."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


def _closed(descriptor: int) -> Callable[[], None]:
    return lambda: os.close(descriptor)


@_UNBUFFERED
@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize(
    "command",
    [
        [*_COMMAND, "--help"],
        [*_COMMAND, "diagnose", "--help"],
        [*_COMMAND, "completion", "bash"],
        [*_COMMAND, "runbook"],
        [sys.executable, "-c", _IN_COLOURS],
    ],
    ids=["help", "help of one", "script", "text", "colours"],
)
def test_half_an_answer_is_a_failure_and_says_so(
    tmp_path: Path, command: list[str], room: int, unbuffered: str
) -> None:
    with (tmp_path / "answer").open("wb") as answer:
        done = subprocess.run(
            command,
            stdout=answer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            preexec_fn=_no_file_over(room),
        )
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.count("\n") == 1
    assert "make room" in done.stderr
    assert (tmp_path / "answer").stat().st_size == room


@_UNBUFFERED
def test_a_whole_answer_is_written_as_ever(tmp_path: Path, unbuffered: str) -> None:
    run = [*_COMMAND, "runbook"]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    piped = subprocess.run(run, capture_output=True, timeout=60, check=True, env=environment)
    with (tmp_path / "answer").open("wb") as answer:
        subprocess.run(run, stdout=answer, timeout=60, check=True, env=environment)
    assert (tmp_path / "answer").read_bytes() == piped.stdout
    assert piped.stdout.count(b"\n") > 20


def test_no_command_begins_that_could_not_answer(tmp_path: Path) -> None:
    made = tmp_path / "state"
    command = [*_COMMAND, "db", "upgrade", "--state-dir", str(made)]
    done = subprocess.run(
        command, stderr=subprocess.PIPE, timeout=60, check=False, preexec_fn=_closed(1)
    )
    assert done.returncode == ExitCode.FAILED
    assert b"/dev/null" in done.stderr
    assert not made.exists()


def test_an_answer_needs_no_standard_error() -> None:
    done = subprocess.run(
        [*_COMMAND, "runbook"],
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
        preexec_fn=_closed(2),
    )
    assert done.returncode == 0
    assert done.stdout.count(b"\n") > 20


def test_a_closed_standard_input_is_an_empty_one() -> None:
    done = subprocess.run(
        [*_COMMAND, "diagnose", "-"],
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=_closed(0),
    )
    assert done.returncode == ExitCode.USAGE
    assert b"is empty" in done.stderr
