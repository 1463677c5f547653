"""When gateways enforced what, and which snapshot a change is in first.

Gateways say themselves when they enforce a version, in their logs. Which version a change is in
tells a watcher, which takes snapshots in over the same stream by the gateway's own client code.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dataplane.gateway.control_link import ControlLink
from dataplane.policy import DeploymentPolicy, Snapshot, decode_snapshot
from dataplane.snapshot_change import apply_change, decode_change

_ENFORCED = b'"event": "snapshot enforced"'
_LOOK_SECONDS = 0.005

IsIn = Callable[[DeploymentPolicy], bool]


class GatewayLog:
    """One gateway's log, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._enforced_at: dict[int, float] = {}

    def enforced_at(self, version: int) -> float | None:
        """Unix time when it first enforced that version or a newer one; None: not yet."""
        self._read()
        return min((at for each, at in self._enforced_at.items() if each >= version), default=None)

    def forget(self) -> None:
        """What was until now."""
        self._read()
        self._enforced_at = {}

    def _read(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if _ENFORCED in line:
                told = json.loads(line)
                at = datetime.fromisoformat(told["at"]).timestamp()
                self._enforced_at.setdefault(told["version"], at)


class Watcher:
    """Takes snapshots in as a gateway does, and keeps the newest."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sought: Mapping[str, IsIn] = {}
        self._found: dict[str, int] = {}
        self.snapshot = Snapshot(version=0)
        self.num_bytes: list[int] = []
        """Of each snapshot that came whole."""
        self.num_change_bytes: list[int] = []
        """Of each that came as what is different."""

    def enforce(self, data: bytes) -> None:
        """What a gateway would be given."""
        self.num_bytes.append(len(data))
        self._take(decode_snapshot(data))

    def enforce_change(self, data: bytes) -> None:
        """The same."""
        self.num_change_bytes.append(len(data))
        self._take(apply_change(self.snapshot, decode_change(data)))

    def document(self) -> bytes:
        """Nobody reads what it keeps on disk."""
        return b"{}"

    def _take(self, snapshot: Snapshot) -> None:
        with self._changed:
            self.snapshot = snapshot
            self._look()
            self._changed.notify_all()

    def seek(self, sought: Mapping[str, IsIn]) -> None:
        """From now on look for the first version in which each deployment is as it should be."""
        with self._changed:
            self._sought, self._found = sought, {}

    def wait(self, seconds: float) -> int:
        """The version in which all that is sought is in. Raises TimeoutError."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self._found) == len(self._sought), seconds)
            if not done:
                raise TimeoutError(f"not in a snapshot after {seconds:g} s: {list(self._sought)}")
            return max(self._found.values())

    def _look(self) -> None:
        by_name = {each.name: each for each in self.snapshot.deployments}
        for name, is_in in self._sought.items():
            if name in by_name and name not in self._found and is_in(by_name[name]):
                self._found[name] = self.snapshot.version


@contextmanager
def watching(url: str, folder: Path) -> Iterator[Watcher]:
    """A watcher on a thread of its own, until the block ends."""
    watcher = Watcher()
    loop = asyncio.new_event_loop()
    folder.mkdir(exist_ok=True)

    async def follow() -> None:
        link = ControlLink(url, "watcher", folder, watcher)
        try:
            await link.watch_snapshots()
        finally:
            await link.close()

    task = loop.create_task(follow())

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield watcher
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def all_enforced(logs: list[GatewayLog], version: int, seconds: float) -> list[float]:
    """Unix times when each gateway enforced that version. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while True:
        times = [log.enforced_at(version) for log in logs]
        found = [each for each in times if each is not None]
        if len(found) == len(logs):
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(logs) - len(found)} gateways do not enforce {version}")
        time.sleep(_LOOK_SECONDS)
