"""An embedded installation alerts by itself, without Prometheus: a budget that burns opens an
incident and is told to a webhook."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.controlplane.slo.notices.webhook_server import SECRET, WebhookServer, serve_webhook
from tests.e2e.served import Served, start_serve, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "ops" / "examples" / "simulator" / "simulator.yaml"
NUM_REQUESTS = 15


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    with serve_webhook() as served:
        yield served


@pytest.fixture
def installation(tmp_path: Path, hook: WebhookServer) -> Iterator[Served]:
    """Its contract promises a first token sooner than any can be."""
    address, config = tmp_path / "hook.url", tmp_path / "config"
    address.write_text(hook.url)
    config.mkdir()
    demo = DEMO.read_text()
    assert demo.count("at_most: 300ms") == 1
    (config / "demo.yaml").write_text(demo.replace("at_most: 300ms", "at_most: 0.001ms"))
    options = ("--config", str(config), "--notify", f"oncall=webhook:{address}")
    started = start_serve(tmp_path / "state", options=(*options, "--evaluate-seconds", "5"))
    try:
        started.wait_until_ready()
        yield started
    finally:
        status = started.stop()
    assert status == 0, started.log_path.read_text()


def _ask(installation: Served) -> None:
    body = {"model": "bytes", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
    url = f"{installation.gateway_url}/v1/chat/completions"
    assert httpx.post(url, json=body, timeout=60).status_code == 200


def test_a_burning_budget_is_told_without_prometheus(
    installation: Served, hook: WebhookServer
) -> None:
    for _ in range(NUM_REQUESTS):
        _ask(installation)
    (told,) = hook.wait_for(1, seconds=60)
    assert told["kind"] == "firing"
    assert told["deployment"] == "simulated-chat"
    assert {each["objective"] for each in told["firing"]} == {"ttft", "together"}
    assert {each["grade"] for each in told["firing"]} == {"page_quick", "page_slow"}
    assert told["console_url"] == installation.url

    def opened() -> list[str]:
        incidents = installation.get("/api/v1/incidents?state=open")["incidents"]
        return [each["incident_id"] for each in incidents]

    wait_for(opened, 60, "an incident")
    firing = installation.get("/api/v1/alerts")["alerts"]
    assert told["firing"][0]["fingerprint"] in {each["fingerprint"] for each in firing}
    logs = (installation.state_dir / "logs").glob("*.log")
    assert [log.name for log in logs if SECRET in log.read_text()] == []
