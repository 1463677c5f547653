"""The simulator's demo under load, its faults driven, and a real Prometheus that watches it with
the configuration and the rules that ship."""

import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from ruamel.yaml import YAML

from controlplane.slo.prometheus.burning import BUDGET_SECONDS
from controlplane.slo.prometheus.counting import COARSE_SECONDS
from tests.e2e.served import Served, start_serve, wait_for
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
DEPLOYMENT = "simulated-chat"
SHIPPED = ROOT / "ops" / "deploy" / "prometheus" / "prometheus.yml"
SCRAPE_SECONDS = 2
_NUM_CALLERS = 6
CHANGED = """
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {name: simulated-chat}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {signal: ttft, at_most: 250ms, for: 99%}
        - {signal: tpot, at_most: 20ms, for: 95%}
        - {signal: e2e, at_most: 5s, for: 95%}
        - {signal: availability, for: 99.9%}
      together: {of: [ttft, tpot], for: 95%}
---
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {name: simulated-chat}
spec:
  classes:
    - {name: interactive, priority: 100, max_queue: 2, deadline: 5m}
  limits: {max_active_per_replica: 2}
  overload: {degrade: {when: queue_age > 20ms, max_tokens: 24}}
"""
"""A tighter threshold, another, and a policy by which callers wait, are refused and get less."""


@dataclass(slots=True)
class Watched:
    """An installation, and the Prometheus that watches it."""

    served: Served
    prometheus_url: str

    def ask(self, path: str, **parameters: Any) -> Any:
        """The data of an answer of Prometheus' API; its error fails the test."""
        url = f"{self.prometheus_url}/api/v1/{path}"
        answer = httpx.get(url, params=parameters, timeout=10).json()
        assert answer["status"] == "success", (parameters, answer.get("error"))
        return answer["data"]

    def apply(self, folder: Path, text: str) -> None:
        """`pilothouse apply`."""
        folder.mkdir()
        (folder / "changed.yaml").write_text(text)
        self.command("apply", "-f", str(folder))

    def command(self, *arguments: str) -> str:
        """`pilothouse ARGUMENTS`, which must succeed. Returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.cli", *arguments, "--url", self.served.url],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def watched_installation(folder: Path) -> Iterator[Watched]:
    """Both, until the block ends; the load is not part of it."""
    served = start_serve(folder / "state", options=["--demo", "simulator"])
    try:
        served.wait_until_ready()
        with _prometheus(folder, served) as url:
            yield Watched(served, url)
    finally:
        assert served.stop() == 0, served.log_path.read_text()


@contextmanager
def _prometheus(folder: Path, served: Served) -> Iterator[str]:
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    config = folder / "prometheus.yml"
    rules = _write_rules(folder, served)
    with config.open("w") as file:
        YAML(typ="safe").dump(_config(served, port, rules), file)
    own = shutil.which("prometheus", path=str(Path(sys.executable).parent))
    program = own or shutil.which("prometheus")
    assert program is not None, "run `make install-test`: it fetches prometheus"
    log_path = folder / "prometheus.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(lambda: _is_ready(url) or process.poll() is not None, 30, "Prometheus")
        assert process.poll() is None, log_path.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def _config(served: Served, port: int, rules: list[str]) -> Mapping[str, Any]:
    """What ships, at this installation's addresses, without keys, and in a hurry."""
    text = SHIPPED.read_text(encoding="utf-8")
    for shipped, here in (("8700", served.port), ("8701", served.gateway_port), ("9090", port)):
        text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{here}")
    config: dict[str, Any] = YAML(typ="safe").load(text)
    config["global"] = {
        "scrape_interval": f"{SCRAPE_SECONDS}s",
        "scrape_timeout": f"{SCRAPE_SECONDS}s",
    }
    config["rule_files"] = rules
    config.pop("alerting", None)
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    jobs.pop("alertmanager", None)
    for job in jobs.values():
        job.pop("authorization", None)
        for found in job.get("http_sd_configs", ()):
            found.pop("authorization", None)
            found["refresh_interval"] = "2s"
    return {**config, "scrape_configs": list(jobs.values())}


def _write_rules(folder: Path, served: Served) -> list[str]:
    """Those of the installation, but in a hurry: evaluated every second, budgets every ten, and
    sums of five minutes are taken more often, since no panel must wait for minutes here. What the
    rules reckon is tried elsewhere."""
    paths = []
    for of in (f"rules/{DEPLOYMENT}", "common-rules/counting", "common-rules/static"):
        text = served.get(f"/api/v1/slo/{of}")["rules"]
        path = folder / f"{of.replace('/', '-')}.rules.yml"
        text = text.replace(f"interval: {BUDGET_SECONDS}s", "interval: 10s")
        text = re.sub(r"interval: (?!10s)\d+s", "interval: 1s", text)
        path.write_text(text.replace(f":{COARSE_SECONDS}s]", ":20s]"))
        paths.append(str(path))
    return paths


@contextmanager
def load(served: Served) -> Iterator[None]:
    """Callers that ask on and on, one in four leaving before the answer's end."""
    is_over = threading.Event()
    with ThreadPoolExecutor(_NUM_CALLERS) as callers:
        calling = [callers.submit(_call, served, at, is_over) for at in range(_NUM_CALLERS)]
        try:
            yield
        finally:
            is_over.set()
            for each in calling:
                each.result()


def _call(served: Served, at: int, is_over: threading.Event) -> None:
    with httpx.Client(base_url=served.gateway_url, timeout=60) as client:
        number = 0
        while not is_over.is_set():
            number += 1
            body = {
                "model": "bytes", "stream": True, "max_tokens": 60, "ignore_eos": True,
                "messages": [{"role": "user", "content": f"How deep is harbour {at} of {number}?"}],
            }  # fmt: skip
            with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                for received, _ in enumerate(answer.iter_lines()):
                    if at % 4 == 0 and received > 6:
                        break
            time.sleep(0.1)
