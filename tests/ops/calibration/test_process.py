import os
import sys
import time
from pathlib import Path

import pytest

from ops.calibration.process import NotStartedError, running, wait_for

_WITH_CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.environ["TOLD"], child.pid, flush=True)
time.sleep(600)
"""


def _words(path: Path) -> list[str] | None:
    return path.read_text().split() or None


def _is_running(process_id: str) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", _WITH_CHILD)
    with running(command, log, {"TOLD": "something"}) as process:
        told, child = wait_for(lambda: _words(log), process, log, seconds=60)
        assert told == "something"
        os.kill(int(child), 0)
    assert process.returncode is not None
    deadline = time.monotonic() + 30
    while _is_running(child):
        assert time.monotonic() < deadline, f"{child} still runs"
        time.sleep(0.05)


def test_a_process_that_ends_before_it_serves_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", "print('no room'); raise SystemExit(3)")
    with running(command, log) as process, pytest.raises(NotStartedError, match="no room"):
        wait_for(lambda: None, process, log, seconds=60)
