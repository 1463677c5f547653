"""The example client against a real gateway and a real control plane, on a scripted engine."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import openai
import pytest

from controlplane.store.records import RecordBatch
from dataplane import names
from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.latency import Boundary
from dataplane.policy import ContractPolicy
from ops.clients import traced_openai
from tests.controlplane.control_plane_server import serve_control_plane
from tests.dataplane.gateway.running_gateway import (
    MODEL,
    add_replica,
    deployment,
    find_tokenizer,
    running_gateway,
    snapshot,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

CONTRACT = """
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {name: callers}
spec:
  boundary: client
  window: 30d
  classes:
    only:
      objectives:
        - {signal: ttft, at_most: 60s, for: 99%}
        - {signal: e2e, at_most: 1us, for: 99%}
"""
TERMS = ContractTerms(
    boundary=Boundary.CLIENT,
    objectives=(
        Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=60.0),
        Objective(signal=ObjectiveSignal.E2E, target=0.99, at_most_seconds=1e-6),
    ),
)


def ask(gateway_url: str, control_plane_url: str, **parameters: Any) -> list[str]:
    """One streamed answer, and its span sent."""
    provider = traced_openai.create_provider(control_plane_url, "shop")
    with openai.OpenAI(base_url=f"{gateway_url}/v1", api_key="none", max_retries=0) as client:
        tracer = provider.get_tracer("shop")
        messages = [{"role": "user", "content": "Say something."}]
        pieces = list(
            traced_openai.stream_chat(client, tracer, MODEL, messages=messages, **parameters)
        )
    provider.shutdown()
    return pieces


async def test_both_sides_of_one_request_are_shown_and_the_client_is_judged(
    tmp_path: Path,
) -> None:
    add_replica("a")
    contract = ContractPolicy(revision="callers@1", terms_by_class={"only": TERMS})
    served = snapshot(deployment("a", tokenizer=find_tokenizer(), contract=contract))
    with serve_control_plane(tmp_path / "controlplane") as (url, _):
        async with (
            running_gateway(tmp_path / "gateway", served) as gateway,
            httpx.AsyncClient(base_url=url) as http,
        ):
            files = [{"name": "callers.yaml", "text": CONTRACT}]
            applied = await http.post("/api/v1/apply", json={"files": files})
            assert applied.status_code == 200, applied.text
            pieces = await asyncio.to_thread(ask, gateway.url, url, max_tokens=5)
            assert len(pieces) > 1
            await gateway.settle()
            [record] = gateway.records
            batch = RecordBatch(gateway_id="g", num_lost=0, records=(record,))
            await http.post("/api/v1/records", content=msgspec.json.encode(batch))
            detail = (await http.get(f"/api/v1/requests/{record.request_id}")).json()
            metrics = (await http.get("/metrics")).text
    client = detail["client"]
    assert client["source"] == "shop"
    assert client["first_content_observability"] == "observed"
    assert client["final_content_observability"] == "observed"
    assert 0 < client["first_content_seconds"] < client["final_content_seconds"]
    assert client["max_chunk_gap_seconds"] is not None
    shown = {each["boundary"]: each for each in detail["boundaries"]}
    assert all(shown[each]["ttft_seconds"] > 0 for each in ("engine", "server", "client"))
    verdicts = {each["signal"]: each["verdict"] for each in detail["judgement"]["objectives"]}
    assert (detail["judgement"]["boundary"], verdicts) == ("client", {"ttft": "good", "e2e": "bad"})
    assert detail["request"]["in_contract"] is False
    assert detail["headline"]["text"].startswith("Answered up to its token limit, out of contract")
    assert f'{names.CONTROLPLANE_SPANS_JOINED_TOTAL}{{side="client"}} 1.0' in metrics
    assert f"{names.CONTROLPLANE_SPANS_WAITING} " in metrics


async def test_who_breaks_off_reports_no_final_content(tmp_path: Path) -> None:
    add_replica("b")
    served = snapshot(deployment("b", tokenizer=find_tokenizer()))

    def break_off(gateway_url: str, control_plane_url: str) -> None:
        provider = traced_openai.create_provider(control_plane_url, "shop")
        with openai.OpenAI(base_url=f"{gateway_url}/v1", api_key="none", max_retries=0) as client:
            pieces = traced_openai.stream_chat(
                client, provider.get_tracer("shop"), MODEL, max_tokens=200,
                messages=[{"role": "user", "content": "Say something."}],
            )  # fmt: skip
            next(pieces)
            pieces.close()
        provider.shutdown()

    with serve_control_plane(tmp_path / "controlplane") as (url, _):
        async with (
            running_gateway(tmp_path / "gateway", served) as gateway,
            httpx.AsyncClient(base_url=url) as http,
        ):
            await asyncio.to_thread(break_off, gateway.url, url)
            await gateway.settle()
            [record] = gateway.records
            batch = RecordBatch(gateway_id="g", num_lost=0, records=(record,))
            await http.post("/api/v1/records", content=msgspec.json.encode(batch))
            detail = (await http.get(f"/api/v1/requests/{record.request_id}")).json()
    assert detail["client"]["error"] == "cancelled"
    assert detail["client"]["first_content_seconds"] > 0
    assert detail["client"]["final_content_seconds"] is None


async def test_the_example_uses_the_names_that_are_read() -> None:
    assert traced_openai.FIRST_CONTENT == names.EVENT_CLIENT_FIRST_CONTENT
    assert traced_openai.FIRST_ANSWER == names.EVENT_CLIENT_FIRST_ANSWER
    assert traced_openai.FINAL_CONTENT == names.EVENT_CLIENT_FINAL_CONTENT
    assert traced_openai.MAX_CHUNK_GAP == names.ATTRIBUTE_CLIENT_MAX_CHUNK_GAP_SECONDS
