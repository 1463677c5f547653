"""A real Prometheus over data that is filled in from before, and our rules over that data."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from controlplane.slo.prometheus.rules import RecordingRule, RuleGroup, render

_READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledPrometheus:
    """Its data in a folder. It scrapes nothing, and is started whenever it is asked something, so
    that it sees what was filled in meanwhile."""

    folder: Path

    @property
    def data(self) -> Path:
        """Where its blocks are."""
        return self.folder / "data"

    def fill(self, openmetrics: str) -> None:
        """Samples with times, in OpenMetrics' text."""
        path = self.folder / "samples.txt"
        path.write_text(openmetrics)
        _promtool("create-blocks-from", "openmetrics", str(path), str(self.data))

    def record(
        self, group: str, interval: int, rules: Sequence[RecordingRule], start: int, end: int
    ) -> None:
        """What `rules` give at each interval, evaluated by a running Prometheus. They refer to
        nothing that one of them records: that is filled in first."""
        path = self.folder / "rules.yml"
        path.write_text(
            render([RuleGroup(name=group, interval_seconds=interval, rules=rules)], ["Filled in."])
        )
        with self.running() as url:
            _promtool(
                "create-blocks-from", "rules", "--url", url, "--start", str(start), "--end",
                str(end), "--output-dir", str(self.data), str(path),
            )  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its URL, until the block ends."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = self.folder / "prometheus.yml"
        config.write_text("global: {}\n")
        log = (self.folder / "prometheus.log").open("ab")
        process = subprocess.Popen(
            [
                _find("prometheus"), "--config.file", str(config), "--storage.tsdb.path",
                str(self.data), "--storage.tsdb.retention.time", "60d",
                "--web.listen-address", f"127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )  # fmt: skip
        try:
            _wait_until_ready(process, f"http://127.0.0.1:{port}", self.folder)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()
            log.close()


def query_range(url: str, query: str, start: int, end: int, step: int) -> dict[int, float]:
    """The values of the one series that `query` gives, by their time."""
    answer = httpx.get(
        f"{url}/api/v1/query_range",
        params={"query": query, "start": start, "end": end, "step": step},
        timeout=60,
    )
    answer.raise_for_status()
    (series,) = answer.json()["data"]["result"]
    return {int(at): float(value) for at, value in series["values"]}


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str, folder: Path) -> None:
    ends_at = time.monotonic() + _READY_SECONDS
    while True:
        try:
            if httpx.get(f"{url}/-/ready", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass  # it does not listen yet
        if process.poll() is not None or time.monotonic() > ends_at:
            raise RuntimeError(f"Prometheus did not start: see {folder / 'prometheus.log'}")
        time.sleep(0.1)


def _promtool(*arguments: str) -> None:
    done = subprocess.run(
        [_find("promtool"), "tsdb", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"promtool {arguments[:2]}: {done.stdout}{done.stderr}")


def _find(program: str) -> str:
    """Beside the interpreter, where the set-up of the tests puts it, or on the PATH."""
    found = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    if found is None:
        raise FileNotFoundError(f"there is no {program}: `make install-test` fetches it")
    return found
