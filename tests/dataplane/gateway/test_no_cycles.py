"""A request that is over leaves no cycles: its memory comes back at once, and the collector, which
stops every stream while it looks, has little to look for."""

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.gateway.running_gateway import CHAT, deployment, say, serving, until
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


@pytest.fixture
def saved_garbage() -> Any:
    """What only a look for cycles frees, kept instead."""
    gc.collect()
    gc.disable()
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_of_a_request_waits_for_the_collector(
    stream: bool, tmp_path: Path, replica: ScriptedReplica, saved_garbage: list[Any]
) -> None:
    async with serving(tmp_path, deployment("a")) as gateway:
        for number in range(5):
            response = await gateway.http.post(CHAT, json=say(max_tokens=8, stream=stream))
            assert response.status_code == 200
            await until(lambda: len(gateway.records) == number + 1)  # noqa: B023
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = [type(each) for each in saved_garbage if _is_of_gateway(type(each))]
    assert ours == []


def _is_of_gateway(kind: type) -> bool:
    return kind.__module__.startswith("dataplane.gateway")
