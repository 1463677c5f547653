"""The event stream of live pages ends with the server and with its reader's session, at once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from controlplane.access.principal import LOCAL
from controlplane.api.events import events
from controlplane.store.users import set_disabled
from dataplane.access import Role
from tests.controlplane.guarded_plane import PASSWORD, GuardedPlane, guarded_plane


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as made:
        yield made


def request_of(plane: GuardedPlane, principal: Any, **headers: str) -> Request:
    """A reader that stays connected."""

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/events",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "app": plane.app,
        "state": {"principal": principal},
    }
    return Request(scope, receive)


def test_a_stream_ends_when_the_server_is_about_to(plane: GuardedPlane) -> None:
    async def read() -> list[str]:
        plane.app.state.closing = asyncio.Event()  # of this loop
        sent = []
        async with asyncio.timeout(30):
            async for part in events(request_of(plane, LOCAL)):
                sent.append(part)
                plane.app.state.closing.set()
        return sent

    assert asyncio.run(read()) == ["retry: 2000\n\n"]


async def _read_until_shut_out(plane: GuardedPlane, request: Request, shut_out: Any) -> list[str]:
    plane.app.state.closing = asyncio.Event()
    stream = events(request, ask_seconds=0.0)
    async with asyncio.timeout(30):
        sent = [await anext(stream)]
        plane.app.state.request_changes.note()
        sent.append(await anext(stream))
        await asyncio.to_thread(shut_out)
        return sent + [part async for part in stream]


def test_a_stream_ends_soon_after_its_reader_logged_out(plane: GuardedPlane) -> None:
    plane.user("ann", Role.VIEWER)
    browser = plane.browser()
    browser.post("/login", data={"name": "ann", "password": PASSWORD, "next": "/"})
    token = browser.cookies["pilothouse_session"]
    principal = plane.app.state.directory.by_session(token)
    request = request_of(plane, principal, cookie=f"pilothouse_session={token}")

    def log_out() -> None:
        answer = browser.post("/logout", data={"csrf_token": principal.csrf_token})
        assert answer.status_code == 303

    opening, changed, *rest = asyncio.run(_read_until_shut_out(plane, request, log_out))
    assert opening.startswith("retry")
    assert changed.startswith("event: requests")
    assert len(rest) <= 1, "what had changed already, and nothing more"


def test_a_stream_ends_soon_after_its_reader_was_disabled(plane: GuardedPlane) -> None:
    plane.user("ann", Role.VIEWER)
    browser = plane.browser()
    browser.post("/login", data={"name": "ann", "password": PASSWORD, "next": "/"})
    token = browser.cookies["pilothouse_session"]
    principal = plane.app.state.directory.by_session(token)
    request = request_of(plane, principal, cookie=f"pilothouse_session={token}")

    def disable() -> None:
        with plane.app.state.config_db.session() as session:
            set_disabled(session, "ann", is_disabled=True, actor="test")
        plane.app.state.directory.forget()

    assert len(asyncio.run(_read_until_shut_out(plane, request, disable))) <= 3
