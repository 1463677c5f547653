"""Ctrl-C ends the command with one plain line, whenever and however often it comes."""

import signal
import subprocess
import sys
import time

import pytest

from controlplane.entry import INTERRUPTED

_LINE = "Interrupted."
_AT_IMPORT = """
import signal, sys
class Ctrl_C:
    def find_spec(self, name, *_):
        if name == {module!r}:
            for _ in range({times}):
                signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Ctrl_C())
sys.argv = ["pilothouse", "diagnose", "engine.log"]
from controlplane.entry import main
main()
"""
_AT_EXIT = """
import signal, sys, threading, time
def late():
    time.sleep(0.3)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    time.sleep(30)
threading.Thread(target=late).start()
sys.argv = ["pilothouse", "--version"]
from controlplane.entry import main
main()
"""

_BEFORE_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, {heard})
sys.argv = [{script!r}, "--version"]
from controlplane.entry import main
signal.raise_signal(signal.SIGINT)
main()
"""


def _ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("module", ["click", "controlplane.cli", "controlplane.cli.diagnose"])
@pytest.mark.parametrize("times", [1, 3])
def test_ctrl_c_while_modules_are_imported_is_one_line(module: str, times: int) -> None:
    done = _ended(_AT_IMPORT.format(module=module, times=times))
    assert done.returncode == INTERRUPTED
    assert done.stderr.split("\n") in ([_LINE, ""], ["", _LINE, ""])
    assert not done.stdout


@pytest.mark.parametrize("script", ["pilothouse", "/usr/bin/pilothouse", "pilothouse-script.py"])
def test_ctrl_c_between_the_first_line_of_ours_and_the_command_is_one_line(script: str) -> None:
    done = _ended(_BEFORE_MAIN.format(script=script, heard="signal.default_int_handler"))
    assert done.returncode == INTERRUPTED
    assert done.stderr == f"{_LINE}\n"


def test_who_ignores_ctrl_c_is_left_to_its_work() -> None:
    done = _ended(_BEFORE_MAIN.format(script="pilothouse", heard="signal.SIG_IGN"))
    assert done.returncode == 0
    assert done.stdout


def test_whoever_else_imports_it_hears_ctrl_c_as_before() -> None:
    done = _ended(_BEFORE_MAIN.format(script="worker", heard="signal.default_int_handler"))
    assert "KeyboardInterrupt" in done.stderr


def test_ctrl_c_while_threads_end_is_one_line() -> None:
    done = _ended(_AT_EXIT)
    assert done.returncode == INTERRUPTED
    assert done.stderr == f"{_LINE}\n"


def test_what_goes_well_ends_with_zero_and_what_is_wrong_with_its_code() -> None:
    def run(*arguments: str) -> int:
        command = [sys.executable, "-m", "controlplane.cli", *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode

    assert run("--version") == 0
    assert run("diagnose", "--nonsense") == 2
    assert run("diagnose", "/nowhere/engine.log") == 2


@pytest.mark.parametrize("times", [1, 3])
def test_quick_ctrl_cs_end_a_diagnosis_that_reads(times: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "controlplane.cli", "diagnose", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.0)  # whenever: at import or while it reads
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert said.strip() == _LINE
