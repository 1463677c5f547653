"""The event stream of live pages ends with the server, at once."""

import asyncio
from types import SimpleNamespace

from starlette.datastructures import State
from starlette.requests import Request

from controlplane.api.events import watch
from controlplane.operator.observed import ObservedState


async def _ends_at_once() -> list[str]:
    state = State()
    state.observed, state.closing = ObservedState(), asyncio.Event()
    forever = asyncio.Event()

    async def receive() -> dict[str, str]:
        await forever.wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    scope["app"] = SimpleNamespace(state=state)  # type: ignore[assignment]
    response = await watch(Request(scope, receive))
    sent = []
    async with asyncio.timeout(30):
        async for part in response.body_iterator:
            sent.append(str(part))
            state.closing.set()
    return sent


def test_a_stream_ends_when_the_server_is_about_to() -> None:
    assert asyncio.run(_ends_at_once()) == ["retry: 2000\n\n"]
