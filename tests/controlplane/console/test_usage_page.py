"""The page of usage: what was used, by whom, and what it cost, with a word for what is unknown."""

import re
import time
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from dataplane.lifecycle import Observability
from dataplane.metering import Metered
from ops.sample_requests import Sample, answered
from ops.seeded_console import store
from ops.seeded_state import deploy
from tests.controlplane.console.reading import page, words

NOW_NS = time.time_ns()
HOSTILE = "<script>alert(1)</script>"


def keep(app: FastAPI, *tenants: tuple[str, float | None]) -> None:
    """One request of each, an hour ago, that took so many seconds; None: nobody knows."""
    records = []
    for sequence, (tenant, seconds) in enumerate(tenants):
        sample = Sample(sequence=sequence, arrived_at_unix_ns=NOW_NS - 3600 * 10**9, tenant=tenant)
        metered = None
        if seconds is not None:
            metered = Metered(
                engine_seconds=seconds,
                engine_observability=Observability.OBSERVED,
                kv_block_seconds=seconds * 10,
            )
        records.append(replace(answered(sample), metered=metered))
    store(app, records)


def test_before_anything_was_used_it_says_so_and_what_to_do(client: TestClient) -> None:
    assert "Nothing was used in that time." in words(page(client, "/usage"))


def test_each_tenant_has_its_row_with_what_it_took_and_what_that_cost(
    app: FastAPI, client: TestClient
) -> None:
    deploy(app.state.config_db, NOW_NS, has_trouble=False)
    keep(app, ("acme", 90.0), ("globex", 30.0), (HOSTILE, 60.0))
    text = words(page(client, "/usage?by=tenant"))
    assert "3 requests took 180.0 s of engines" in text
    assert "acme 1 1 128 64 51 90.0 s 900.0 block-s" in text
    assert "globex 1 1 128 64 51 30.0 s 300.0 block-s" in text
    assert re.search(r"chat \d+\.\d h 180\.0 s \d\d(\.\d+)? % [\d.]+ USD", text), text
    assert HOSTILE not in client.get("/usage?by=tenant").text


def test_what_nobody_measured_is_unknown_and_never_zero(app: FastAPI, client: TestClient) -> None:
    keep(app, ("acme", None))
    text = words(page(client, "/usage?by=tenant"))
    assert "1 requests took unknown of engines" in text
    assert "acme 1 1 128 64 51 unknown unknown" in text
    assert "○ 1 requests were not measured: their gateway ended before they did." in text


def test_the_page_of_a_request_says_what_it_took(app: FastAPI, client: TestClient) -> None:
    keep(app, ("acme", 1.5))
    [request] = client.get("/api/v1/requests").json()["requests"]
    text = words(page(client, f"/requests/{request['request_id']}"))
    assert "Took of engines 1.50 s 15.0 KV block-s" in text
    assert request["engine_seconds"] == 1.5


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("by=model", "by: 'model' is none of"),
        ("since=x", "since: 'x'"),
        ("tenant=" + "a" * 300, "tenant: longer"),
    ],
)
def test_what_cannot_be_shown_is_told(client: TestClient, query: str, says: str) -> None:
    assert f"Usage cannot be shown: {says}" in words(page(client, f"/usage?{query}", 422))
