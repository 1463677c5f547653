"""Logs of a process: JSON lines that name the request, by one door for all loggers."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """
import logging
import structlog
from dataplane.logs import configure_logs, request_context

configure_logs("gateway", gateway_id="gateway-0-a")
log = structlog.get_logger("dataplane.gateway.flow")
log.info("listening", port=8701)
with request_context("request-1", "0af7"):
    log.warning("slow", num_tokens=3)
    logging.getLogger("uvicorn.error").error("from a library: %s", "why")
log.debug("not shown")
logging.getLogger("uvicorn.access").info("GET /v1/models")
logging.getLogger("httpx").info("HTTP Request: PUT /api/v1/gateways/gateway-0")
try:
    prompt = "a secret prompt"
    raise ValueError("broken")
except ValueError:
    log.exception("failed")
"""


def _lines() -> list[dict[str, Any]]:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert ended.stdout == ""
    return [json.loads(line) for line in ended.stderr.splitlines()]


def test_every_line_is_json_and_says_process_level_time_and_logger() -> None:
    lines = _lines()
    assert [line["event"] for line in lines] == [
        "listening",
        "slow",
        "from a library: why",
        "failed",
    ]
    for line in lines:
        assert line["process"] == "gateway"
        assert line["gateway_id"] == "gateway-0-a"
        assert line["at"].endswith("Z")
    assert [line["level"] for line in lines] == ["info", "warning", "error", "error"]
    assert [line["logger"] for line in lines][:3] == [
        "dataplane.gateway.flow",
        "dataplane.gateway.flow",
        "uvicorn.error",
    ]
    listening, slow, library, failed = lines
    assert listening["port"] == 8701
    assert {"request_id", "trace_id"}.isdisjoint(listening)
    for line in (slow, library):
        assert (line["request_id"], line["trace_id"]) == ("request-1", "0af7")
    assert "request_id" not in failed, "the request's context ends with it"
    assert "ValueError: broken" in failed["exception"]
    assert "a secret prompt" not in json.dumps(failed), "local variables are not shown"


def test_importing_the_module_changes_no_logger() -> None:
    before = (logging.getLogger().handlers[:], logging.getLogger("uvicorn.access").disabled)
    import dataplane.logs  # noqa: F401

    assert (logging.getLogger().handlers[:], logging.getLogger("uvicorn.access").disabled) == before
