"""What became of processes, in a file that many may write and a full disk may cut off."""

import subprocess
import sys
from pathlib import Path

from controlplane.process_history import ProcessEvent, ProcessHistory

ROOT = Path(__file__).parents[2]


def _event(
    at: int, name: str = "gateway-0", reason: str = "it was ended by SIGKILL"
) -> ProcessEvent:
    return ProcessEvent(at_unix_ns=at, name=name, role="gateway", what="failed", reason=reason)


def test_the_newest_comes_first_and_a_time_can_be_chosen(tmp_path: Path) -> None:
    history = ProcessHistory(tmp_path / "state")
    assert history.read(10) == []
    for at in (1, 2, 3, 4):
        history.note(_event(at))
    assert history.read(2) == [_event(4), _event(3)]
    assert history.read_between(2, 4, 10) == [_event(3), _event(2)]
    assert ProcessHistory(tmp_path / "state").read(1) == [_event(4)], "it is on disk"


def test_what_was_cut_off_swallows_nothing_after_it(tmp_path: Path) -> None:
    history = ProcessHistory(tmp_path)
    history.note(_event(1))
    [file] = tmp_path.iterdir()
    with file.open("ab") as end:
        end.write(b'\n{"at_unix_ns":2,"name":"gat')
    history.note(_event(3))
    assert history.read(10) == [_event(3), _event(1)]


def test_it_stays_small_and_forgets_the_oldest_first(tmp_path: Path) -> None:
    history = ProcessHistory(tmp_path)
    for at in range(1000):
        history.note(_event(at, reason="x" * 1024))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 300 * 2**10
    kept = [event.at_unix_ns for event in history.read(1000)]
    assert len(kept) > 100
    assert kept == list(range(999, 999 - len(kept), -1))


_WRITES = """
import sys
from pathlib import Path
from controlplane.process_history import ProcessEvent, ProcessHistory
history = ProcessHistory(Path(sys.argv[1]))
for at in range(100):
    history.note(ProcessEvent(
        at_unix_ns=at, name=sys.argv[2], role="gateway", what="failed", reason="x" * 500
    ))
"""


def test_several_processes_write_it_at_once(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITES, tmp_path, name], cwd=ROOT)
        for name in ("one", "two", "three")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    events = ProcessHistory(tmp_path).read(1000)
    by_name = {name: [e.at_unix_ns for e in events if e.name == name] for name in ("one", "two")}
    assert by_name == {"one": list(range(99, -1, -1)), "two": list(range(99, -1, -1))}
