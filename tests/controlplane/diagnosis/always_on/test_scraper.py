"""Finding and asking metrics pages: of our own engines, of attached ones, of those without."""

import asyncio
from dataclasses import replace

from controlplane.diagnosis.always_on.scraper import ScrapedPage, Scraper
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.sight import targets_of
from controlplane.diagnosis.always_on.turns import Target
from controlplane.operator.observed import ObservedReplica
from tests.controlplane.diagnosis.always_on.metrics_server import serving, vllm_page
from tests.controlplane.diagnosis.always_on.watched_fleet import replica


def _target(address: str) -> Target:
    return Target(replica_id="chat-1", deployment="chat", address=address)


def _scrape(target: Target, *at: float, settings: AlwaysOnSettings | None = None) -> list[str]:
    """What came of it at each of these times: the beginning of the page, or why there is none."""
    now = [0.0]

    def told(page: ScrapedPage) -> str:
        if page.is_resting:
            return "resting"
        return page.text[:10] if page.text is not None else page.why

    async def run() -> list[str]:
        scraper = Scraper(settings or AlwaysOnSettings(), clock=lambda: now[0])
        try:
            answers = []
            for now[0] in at:
                answers += await scraper.scrape([target])
            return [told(answer) for answer in answers]
        finally:
            await scraper.close()

    return asyncio.run(run())


def test_below_the_base_url_of_an_attached_engine_its_page_is_found_once() -> None:
    with serving() as server:
        server.page = vllm_page(running=3)
        found = _scrape(_target(f"http://{server.address}/v1"), 0.0, 5.0)
        assert found == ["# TYPE vll", "# TYPE vll"]
        assert server.asked == ["/metrics", "/metrics"]


def test_who_shows_no_page_is_asked_again_ever_more_rarely() -> None:
    with serving() as server:
        told = _scrape(_target(server.address), 0.0, 5.0, 10.0, 20.0, 30.0)
        assert "404" in told[0]
        assert [each == "resting" for each in told] == [False, True, False, True, False]


def test_a_page_without_end_is_not_read_to_its_end() -> None:
    with serving() as server:
        server.page = vllm_page(running=3)
        short = AlwaysOnSettings(max_page_bytes=100)
        target = Target(
            replica_id="g", deployment="", address="g", page=f"http://{server.address}/metrics"
        )
        assert _scrape(target, 0.0, settings=short) == ["its page is longer than 100 bytes"]


def test_what_has_ended_or_tells_no_address_is_not_asked() -> None:
    def seen(address: str | None, metrics: str | None, state: str = "ready") -> ObservedReplica:
        made = replica("chat-1", "")
        return replace(made, address=address, metrics_address=metrics, state=state)

    assert [each.address for each in targets_of([seen("10.0.0.1:1", "10.0.0.1:2")])] == [
        "10.0.0.1:2"
    ]
    assert [each.address for each in targets_of([seen("http://h:8000/v1", None)])] == [
        "http://h:8000/v1"
    ]
    assert targets_of([seen("10.0.0.1:1", None)]) == []
    assert targets_of([seen("10.0.0.1:1", "10.0.0.1:2", "failed")]) == []
