"""Shell completion, in the real shells."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli import main
from tests.controlplane.config_documents import SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config

_BASH = """
source <(pilothouse completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_pilothouse_completion pilothouse "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
_ZSH = """
autoload -Uz compinit && compinit -u -D
eval "$(pilothouse completion zsh)"
words=("$@"); CURRENT=$#
compadd() { local name=${@[-1]}; print -l -- ${(P)name}; }
_describe() { local -a found; found=(${(P)3}); print -l -- ${found%%:*}; }
_pilothouse_completion
"""
_FISH = """
pilothouse completion fish | source
complete --do-complete (string join ' ' -- $argv)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfigServer]:
    with serve_config(tmp_path_factory.mktemp("completion")) as server:
        arguments = ["apply", "-f", "-", "--url", server.url]
        result = CliRunner().invoke(main, arguments, input="---\n".join(SERVICE))
        assert result.exit_code == 0, result.output
        yield server


def complete(url: str, *words: str, shell: str = "bash") -> list[str]:
    """What the shell offers for the last word."""
    executable = shutil.which(shell)
    if executable is None:
        pytest.skip(f"{shell} is not installed here")
    line = ["pilothouse", *words]
    command = {
        "bash": [executable, "--norc", "-c", _BASH, "bash", *line],
        "zsh": [executable, "-f", "-c", _ZSH, "zsh", *line],
        "fish": [executable, "--no-config", "-c", _FISH, *line],
    }[shell]
    # The command as it is installed, first in the path.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PILOTHOUSE_URL": url}
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert result.stderr == ""
    return [line.partition("\t")[0] for line in result.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_kinds_names_and_words_are_completed(server: ConfigServer, shell: str) -> None:
    for words, offered in (
        (("des",), ["describe"]),
        (("get", "dep"), ["deployments"]),
        (("describe", "deployment", ""), ["chat"]),
        (("diff", "models", "sm"), ["smollm2"]),
        (("requests", "--disposition", "ca"), ["cancelled"]),
        (("get", "revisions", "model", ""), ["smollm2"]),
        (("requests", "--deployment", ""), ["chat"]),
    ):
        assert complete(server.url, *words, shell=shell) == offered, words


def test_fields_are_completed_step_by_step() -> None:
    offered = complete("http://127.0.0.1:1", "explain", "policy.overload.d")

    assert offered == [
        "policy.overload.degrade",
        "policy.overload.degrade.fallback",
        "policy.overload.degrade.max_tokens",
        "policy.overload.degrade.when",
    ]


def test_a_control_plane_that_is_down_offers_no_names_and_says_nothing() -> None:
    assert complete("http://127.0.0.1:1", "describe", "deployment", "") == []
    assert complete("no address at all", "get", "gateways", "") == []


def test_a_control_plane_that_hangs_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        assert complete(url, "describe", "replica", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell_is_printed(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])

    assert result.exit_code == 0
    assert "_PILOTHOUSE_COMPLETE" in result.stdout


def test_another_shell_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])

    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr
