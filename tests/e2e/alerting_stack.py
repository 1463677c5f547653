"""A served installation with a real Prometheus and a real Alertmanager, set up as the guide says.

Files are those that ship or that `pilothouse slo render` makes. Ports differ, and what happens
every half minute or so happens every few seconds here; the windows of the rules stay as they are.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from tests.alerts.alerting_servers import running_alertmanager, running_prometheus
from tests.e2e.served import Served, start_serve

ROOT = Path(__file__).parents[2]
_EVALUATED_SECONDS = 5
_RESEND = ["--rules.alert.resend-delay=2s"]
"""The first alert may be dropped before Alertmanager was discovered."""
_RENDERED = {
    "counting": ("--common", "counting"),
    "static": ("--common", "static"),
    "chat": ("simulated-chat",),
}
"""Files of rules by their name."""


@dataclass(slots=True)
class Outside:
    """The service outside that calls when the watchdog stops coming."""

    url: str
    num_heard: int = 0


@dataclass(slots=True)
class Alerting:
    """All of it."""

    served: Served
    prometheus: str
    alertmanager: str
    outside: Outside

    def pilothouse(self, *arguments: str) -> str:
        """What a command prints; it must succeed."""
        return _pilothouse(self.served, *arguments)

    def firing(self, name: str) -> list[dict[str, Any]]:
        """As Prometheus has them now."""
        answer = httpx.get(f"{self.prometheus}/api/v1/alerts", timeout=10).json()
        return [
            each
            for each in answer["data"]["alerts"]
            if each["labels"]["alertname"] == name and each["state"] == "firing"
        ]

    def value(self, expr: str) -> float | None:
        """Of the one series that an expression gives; None: of no series."""
        asked = {"query": expr}
        answer = httpx.get(f"{self.prometheus}/api/v1/query", params=asked, timeout=10).json()
        found = answer["data"]["result"]
        return float(found[0]["value"][1]) if found else None


@contextmanager
def alerting_stack(folder: Path, contract: str) -> Iterator[Alerting]:
    """Of the simulator's demo under `contract`, a document that replaces the demo's."""
    quick = ["--evaluate-seconds", str(_EVALUATED_SECONDS)]
    served = start_serve(folder / "state", options=["--demo", "simulator", *quick])
    try:
        served.wait_until_ready()
        (folder / "contract.yaml").write_text(contract)
        _pilothouse(served, "apply", "-f", str(folder / "contract.yaml"), "--reason", "a test")
        with _outside() as outside, _servers(folder, served, outside) as (manager, prometheus):
            yield Alerting(served, prometheus, manager, outside)
    finally:
        status = served.stop()
    assert status == 0, served.log_path.read_text()


@contextmanager
def _servers(folder: Path, served: Served, outside: Outside) -> Iterator[tuple[str, str]]:
    """Addresses of an Alertmanager and of a Prometheus that tells it."""
    config = _alertmanager(served, outside)
    with running_alertmanager(folder / "alertmanager", config) as manager:
        of_prometheus = _with_rules(folder / "prometheus", served)
        config = _prometheus(served, manager, folder)
        with running_prometheus(of_prometheus, config, _RESEND) as prometheus:
            yield manager, prometheus


def _pilothouse(served: Served, *arguments: str) -> str:
    argv = [sys.executable, "-m", "controlplane.cli", *arguments, "--url", served.url]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _with_rules(folder: Path, served: Served) -> Path:
    rules = folder / "rules"
    rules.mkdir(parents=True)
    for name, arguments in _RENDERED.items():
        text = _pilothouse(served, "slo", "render", *arguments)
        (rules / f"{name}.rules.yml").write_text(_quicker(text, "30s"))
    return folder


def _quicker(text: str, *waits: str) -> str:
    """Each of `waits`, where it stands as a word, is now a few seconds."""
    for wait in waits:
        text, num = re.subn(rf"\b{wait}\b", f"{_EVALUATED_SECONDS}s", text)
        assert num > 0, wait
    return text


def _alertmanager(served: Served, outside: Outside) -> str:
    path = "/run/secrets/watchdog_url"
    text = _pilothouse(
        served, "slo", "render", "--common", "alertmanager", "--watchdog-url-file", path
    )
    text = _quicker(text, "50s", "1m", "5m", "10s", "30s")
    # Debian's Alertmanager knows no url_file: as the guide says.
    return replaced(text, {f"url_file: {path}": f"url: {outside.url}"})


def _prometheus(served: Served, alertmanager: str, folder: Path) -> str:
    (folder / "viewer.key").write_text("none is asked for")
    return replaced(
        (ROOT / "ops" / "deploy" / "prometheus" / "prometheus.yml").read_text(),
        {
            "scrape_interval: 15s": "scrape_interval: 1s",
            "scrape_timeout: 10s": "scrape_timeout: 1s",
            "refresh_interval: 15s": "refresh_interval: 2s",
            "/etc/prometheus/rules/": f"{folder}/prometheus/rules/",
            "/etc/prometheus/key/viewer.key": str(folder / "viewer.key"),
            "127.0.0.1:8700": served.url.removeprefix("http://"),
            "127.0.0.1:8701": served.gateway_url.removeprefix("http://"),
            "127.0.0.1:9093": alertmanager.removeprefix("http://"),
        },
    )


def replaced(text: str, pairs: dict[str, str]) -> str:
    """Each of them must be there."""
    for old, new in pairs.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def _outside() -> Iterator[Outside]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            outside.num_heard += 1
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        outside = Outside(f"http://127.0.0.1:{server.server_port}/watchdog")
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield outside
        finally:
            server.shutdown()
