"""A real Prometheus is asked what it has of engines."""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.sources.prometheus_server import PrometheusError, read_prometheus
from controlplane.diagnosis.window import DoubtKind, EngineName
from dataplane.engine_metrics.signal import Signal

BIN = Path(__file__).parents[4] / ".venv" / "bin"
BEGAN = 1_700_000_000
INTERVAL = 15


def find_program(name: str) -> str:
    found = shutil.which(name, path=f"{BIN}:/usr/bin:/usr/local/bin")
    assert found is not None, f"install {name} (ops/setup-test.sh does)"
    return found


def _exposition() -> str:
    """Two targets over two minutes; the second is down from the middle on."""
    lines = ["# TYPE vllm:num_requests_running gauge"]
    for target, num_pages in (("a:8000", 9), ("b:8000", 4)):
        lines += [
            f'vllm:num_requests_running{{instance="{target}",job="vllm",engine="0"}} '
            f"{3 + page} {BEGAN + page * INTERVAL}"
            for page in range(num_pages)
        ]
    lines.append("# TYPE vllm:generation_tokens counter")
    lines += [
        f'vllm:generation_tokens_total{{instance="a:8000",job="vllm",engine="0"}} '
        f"{page * 500} {BEGAN + page * INTERVAL}"
        for page in range(9)
    ]
    lines.append("# TYPE vllm:time_to_first_token_seconds histogram")
    for page in range(9):
        at, labels = BEGAN + page * INTERVAL, 'instance="a:8000",job="vllm"'
        name = "vllm:time_to_first_token_seconds"
        lines += [
            f'{name}_bucket{{{labels},le="0.5"}} {page} {at}',
            f'{name}_bucket{{{labels},le="+Inf"}} {2 * page} {at}',
            f"{name}_count{{{labels}}} {2 * page} {at}",
            f"{name}_sum{{{labels}}} {page} {at}",
        ]
    lines.append("# TYPE up gauge")
    for page in range(9):
        at = BEGAN + page * INTERVAL
        lines.append(f'up{{instance="a:8000",job="vllm"}} 1 {at}')
        lines.append(f'up{{instance="b:8000",job="vllm"}} {int(page < 4)} {at}')
    lines.append("# TYPE unrelated gauge")
    lines.append(f'unrelated{{instance="c:1",job="node"}} 1 {BEGAN}')
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serves blocks that were made of an exposition with times: nothing is scraped, and nothing
    waits."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "samples.txt").write_text(_exposition())
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    subprocess.run(
        [find_program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "samples.txt",
         "data"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(
            [find_program("prometheus"), "--config.file=prometheus.yml",
             "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}", server, folder / "log.txt")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def _wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(400):
        assert server.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/-/ready").is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"Prometheus is not ready: {log.read_text()}")


def test_a_real_prometheus_gives_series_with_their_scrapes_and_their_gaps(
    prometheus: str,
) -> None:
    end = BEGAN + 8 * INTERVAL
    window = asyncio.run(read_prometheus(prometheus, start=BEGAN - 1, end=end))
    assert window.engine == EngineName(name="vllm")
    assert window.end == end
    running = window.find(Signal.RUNNING, replica="a:8000")
    assert running is not None
    assert [each.at - BEGAN for each in running.readings] == [page * INTERVAL for page in range(9)]
    assert running.origin.kind is SourceKind.PROMETHEUS
    tokens = window.find(Signal.GENERATION_TOKENS)
    assert tokens is not None
    assert tokens.increase == 4000
    ttft = window.find_histogram(Signal.TTFT)
    assert ttft is not None
    assert ttft.mean == 0.5
    interval = window.fact("scrape interval")
    assert interval is not None
    assert (interval.value, interval.is_observed) == (INTERVAL, True)
    assert window.number("scrapes unanswered") == 5
    gone = [doubt for doubt in window.doubts_of(DoubtKind.STUCK) if "b:8000" in doubt.name]
    assert len(gone) == 1
    assert "75 s before the end" in gone[0].what


def test_a_selector_narrows_it_down_and_a_wrong_one_is_told(prometheus: str) -> None:
    end = BEGAN + 8 * INTERVAL

    def read(selector: str) -> object:
        return asyncio.run(read_prometheus(prometheus, start=BEGAN - 1, end=end, selector=selector))

    window = asyncio.run(
        read_prometheus(prometheus, start=BEGAN - 1, end=end, selector='{instance="a:8000"}')
    )
    assert {each.labels.get("replica") for each in window.series} == {None}
    with pytest.raises(PrometheusError, match="a selector is written as in Prometheus"):
        read("instance=a")
    with pytest.raises(PrometheusError, match=r"none of its 1 names .* is an engine's"):
        read('job="node"')


def test_an_address_without_a_prometheus_is_named() -> None:
    with pytest.raises(PrometheusError, match=r"127\.0\.0\.1:1: no answer"):
        asyncio.run(read_prometheus("http://127.0.0.1:1", start=0, end=1))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://user:secret@127.0.0.1:1", "no answer"),
        ("http://user:secret@[::1", "is no address"),
        ("ftp://user:secret@h", "is no address"),
    ],
)
def test_a_password_in_the_address_is_in_no_error(url: str, words: str) -> None:
    with pytest.raises(PrometheusError, match=words) as caught:
        asyncio.run(read_prometheus(url, start=BEGAN, end=BEGAN + 60))
    assert "secret" not in str(caught.value)


class _Somebody(BaseHTTPRequestHandler):
    """Answers every path the same."""

    status, body = 200, b""

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.mark.parametrize(
    ("status", "body", "remedy"),
    [
        (404, b'{"error": {"code": 404, "message": "File Not Found"}}', "pilothouse diagnose"),
        (404, b'{"detail": "Not Found"}', "pilothouse diagnose"),
        (200, b"<html></html>", "pilothouse diagnose"),
        (200, b"[]", "pilothouse diagnose"),
        (401, b"who are you?", "--engine-key-file"),
        (422, b'{"status": "error", "error": "too many samples"}', "--since"),
    ],
)
def test_what_is_no_prometheus_is_sent_where_it_belongs(
    status: int, body: bytes, remedy: str
) -> None:
    handler = type("_This", (_Somebody,), {"status": status, "body": body})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(PrometheusError) as caught:
                asyncio.run(read_prometheus(url, start=0, end=1))
        finally:
            server.shutdown()
    assert remedy in caught.value.remedy
    assert "{" not in str(caught.value)
    assert "selector is written" not in str(caught.value)
