"""A real Prometheus and a real Alertmanager, each on a free port and in a folder of its own."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.ports import free_port
from tests.programs import find_program

_START_SECONDS = 30
_END_SECONDS = 20


@contextmanager
def running_alertmanager(folder: Path, config: str) -> Iterator[str]:
    """Its address. Alone: it looks for no others of its kind."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "alertmanager.yml").write_text(config)
    url = f"http://127.0.0.1:{free_port()}"
    argv = [
        find_program("alertmanager"),
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        "--cluster.listen-address=",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]
    with _running(argv, folder, url):
        yield url


@contextmanager
def running_prometheus(folder: Path, config: str, options: Sequence[str] = ()) -> Iterator[str]:
    """Its address. Its rules lie in the folder `rules` beside its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config)
    url = f"http://127.0.0.1:{free_port()}"
    argv = [
        find_program("prometheus"),
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={url.removeprefix('http://')}",
        *options,
    ]
    with _running(argv, folder, url):
        yield url


@contextmanager
def _running(argv: Sequence[str], folder: Path, url: str) -> Iterator[None]:
    log_path = folder / "log.txt"
    with log_path.open("w") as log:
        server = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_until_ready(url, server, log_path)
        yield
    finally:
        server.terminate()
        server.wait(_END_SECONDS)


def _wait_until_ready(url: str, server: "subprocess.Popen[bytes]", log_path: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, log_path.read_text()
        try:
            if httpx.get(f"{url}/-/ready").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{url} is not ready: {log_path.read_text()}")
