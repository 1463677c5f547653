"""What a server's metrics page says, and that it says nothing that can be read."""

import asyncio
import logging

import pytest

from dataplane.engine import EngineStats
from dataplane.engine_metrics.scrape import Scrape
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.vllm import VLLM
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.scraping import ScrapedStats
from dataplane.openai_endpoint.settings import EndpointSettings
from tests.controlplane.diagnosis.always_on.metrics_server import serving


def _running(scrape: Scrape) -> EngineStats:
    return EngineStats(age_seconds=0.0, num_running=scrape.count(Signal.RUNNING))


def test_a_page_that_cannot_be_read_is_said_once_and_what_was_known_grows_old(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    scraped = ScrapedStats(VLLM, {Signal.RUNNING}, _running, 1.0, lambda: now)

    async def scenario(address: str) -> list[EngineStats | None]:
        nonlocal now
        http = EndpointHttp("chat-1", address, EndpointSettings())
        found = []
        try:
            for page in ("3", "many", "many"):
                server.page = f"vllm:num_requests_running {page}\n"
                found.append(await scraped.stats(http))
                now += 2.0
        finally:
            await http.close()
        return found

    with serving() as server, caplog.at_level(logging.WARNING):
        found = asyncio.run(scenario(server.address))

    assert [(each.num_running, each.age_seconds) for each in found if each] == [
        (3, 0.0),
        (3, 2.0),
        (3, 4.0),
    ]
    assert len(caplog.messages) == 1
    assert "many" in caplog.messages[0]
