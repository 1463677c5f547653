"""Bodies of all requests together are bounded, and what was held comes back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.gateway.body_budget import BodyBudget
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    running_gateway,
    say,
    scripted_plugin,
    snapshot,
    until,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with scripted_plugin(tmp_path_factory.mktemp("plugin")):
        yield


def test_a_lease_grows_within_the_budget_and_gives_all_back() -> None:
    budget = BodyBudget(max_bytes=10)
    with budget.lease() as first, budget.lease() as second:
        assert first.reach(6)
        assert first.reach(4), "it holds more already"
        assert not second.reach(5)
        assert second.reach(4)
        assert budget.num_bytes == 10
        assert not first.reach(7)
        assert budget.num_bytes == 10
    assert budget.num_bytes == 0


async def test_a_body_beyond_the_budget_is_503_until_another_request_ends(tmp_path: Path) -> None:
    replica = add_replica("a")
    async with running_gateway(
        tmp_path, snapshot(deployment("a")), max_bodies_bytes=2_000
    ) as gateway:
        bodies = gateway.app.gateway.bodies
        replica.hold()
        large = say("x" * 1_500, max_tokens=1)
        first = asyncio.create_task(gateway.http.post(CHAT, json=large))
        await until(lambda: len(replica.submitted) == 1)
        refused = await gateway.http.post(CHAT, json=large)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "bodies_exceed_memory"
        assert refused.headers["retry-after"] == "1"
        replica.resume()
        assert (await first).is_success
        await until(lambda: bodies.num_bytes == 0)
        assert (await gateway.http.post(CHAT, json=large)).is_success
        await gateway.settle()
