"""A bar is drawn for who watches, on standard error, and for nobody else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

_WORK = """
from controlplane.cli.progress import counting_bar, progress_bar
with progress_bar() as bar:
    bar.advance("reading \\x1b[31m[bold]names", 0.5)
with counting_bar() as count:
    count("rows", 3, 4)
with counting_bar() as count:
    count("of nobody knows how many", 3, 0)
print("result")
"""


def run(stderr: int) -> str:
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    finished = subprocess.run(
        [sys.executable, "-c", _WORK],
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=environment,
        check=True,
        text=True,
    )
    return finished.stdout


def test_on_a_terminal_it_says_what_is_done_and_how_much_and_leaves_the_output_alone() -> None:
    master, slave = pty.openpty()

    output = run(slave)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)

    assert output == "result\n"
    assert "reading \ufffd[31m[bold]names" in shown
    assert "50%" in shown
    assert "rows 3/4" in shown
    assert "75%" in shown
    assert "of nobody knows how many 3/0" in shown


def test_into_a_file_there_is_none(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w") as stderr:
        output = run(stderr.fileno())

    assert output == "result\n"
    assert (tmp_path / "stderr").read_text() == ""
