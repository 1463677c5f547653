"""Both sides of one request: a real client's span joins what the gateway recorded."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.served import Served, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parents[2] / "ops" / "clients" / "traced_openai.py"


def ask(served: Served, *options: str) -> str:
    """Run the example as a user does; returns the trace id that it prints."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "What is the capital of France?", *options,
         "--gateway", served.gateway_url, "--control-plane", served.url],
        capture_output=True,
        text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    found = re.search(r"^pilothouse trace ([0-9a-f]{32})$", done.stdout, re.M)
    assert found is not None, done.stdout
    return found[1]


def test_one_request_is_shown_from_both_sides(served: Served) -> None:
    trace_id = ask(served)

    def reported() -> Any:
        listed = served.get("/api/v1/requests?limit=50")["requests"]
        if trace_id not in [each["trace_id"] for each in listed]:
            return None
        detail = served.get(f"/api/v1/requests/{trace_id}")
        return detail if detail["client"] else None

    detail = wait_for(reported, 15, "the record and the client's report, in whatever order")
    client = detail["client"]
    assert client["source"] == "traced_openai"
    assert client["first_content_observability"] == client["final_content_observability"]
    assert client["first_content_observability"] == "observed"
    assert 0 < client["first_content_seconds"] <= client["final_content_seconds"] < 60
    assert client["attributes"]["gen_ai.response.id"].endswith(detail["request"]["request_id"])
    shown = {each["boundary"]: each for each in detail["boundaries"]}
    assert all(shown[each]["ttft_seconds"] > 0 for each in ("engine", "server", "client"))
    assert detail["life"]["phases"][-1]["name"] == "client"

    done = subprocess.run(
        [sys.executable, "-m", "controlplane.cli", "trace", trace_id, "--url", served.url],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "own clock" in done.stdout
