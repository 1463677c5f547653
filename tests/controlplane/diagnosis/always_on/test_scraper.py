"""Finding and asking metrics pages: of our own engines, of attached ones, of those without."""

import asyncio
from dataclasses import replace

import pytest

from controlplane.diagnosis.always_on.scraper import ScrapedPage, Scraper
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.sight import targets_of
from controlplane.diagnosis.always_on.turns import Target
from controlplane.operator.observed import ObservedReplica
from tests.controlplane.diagnosis.always_on.metrics_server import MetricsServer, serving, vllm_page
from tests.controlplane.diagnosis.always_on.watched_fleet import replica


def _target(address: str) -> Target:
    return Target(replica_id="chat-1", deployment="chat", address=address)


def _scrape(
    target: Target,
    *at: float,
    settings: AlwaysOnSettings | None = None,
    goes: tuple[MetricsServer, float] | None = None,
    comes_at: float = float("inf"),
) -> list[str]:
    """What came of it at each of these times: the beginning of the page, or why there is none.
    `goes`: whose page is away from when on, until `comes_at`."""
    page = goes[0].page if goes else ""
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
                if goes is not None:
                    goes[0].page = "" if goes[1] <= now[0] < comes_at else page
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


def test_one_that_nobody_reaches_is_asked_more_often_though_it_shows_no_page() -> None:
    with serving() as server:
        there = _target(server.address)
        times = (0.0, 10.0, 30.0, 70.0, 80.0, 81.0)
        told = _scrape(there, *times)
        lost = _scrape(replace(there, is_lost=True), *times)
    assert [each == "resting" for each in told] == [False, False, False, False, True, True]
    assert [each == "resting" for each in lost] == [False, False, False, False, False, True]


def test_a_port_that_refuses_is_no_silence_and_no_answer() -> None:
    async def ask(address: str) -> tuple[bool, bool]:
        scraper = Scraper(AlwaysOnSettings())
        try:
            (page,) = await scraper.scrape([_target(address)])
        finally:
            await scraper.close()
        return page.is_refused, page.is_unheard

    with serving() as server:
        assert asyncio.run(ask(server.address)) == (False, False)
    assert asyncio.run(ask(server.address)) == (True, True)


def test_a_page_without_end_is_not_read_to_its_end() -> None:
    with serving() as server:
        server.page = vllm_page(running=3)
        short = AlwaysOnSettings(max_page_bytes=100)
        target = Target(
            replica_id="g", deployment="", address="g", page=f"http://{server.address}/metrics"
        )
        assert _scrape(target, 0.0, settings=short) == ["its answer is longer than 100 bytes"]


def test_a_page_that_is_gone_for_long_is_looked_for_anew_and_soon_found_again() -> None:
    with serving() as server:
        server.page = vllm_page(running=3)
        times = [5.0 * n for n in range(14)]
        found = _scrape(_target(server.address), *times, goes=(server, 5.0))
        assert found[0] == "# TYPE vll"
        assert found[1:13] == ["404"] * 12
        assert found[13] == "resting"
    with serving() as server:
        server.page = vllm_page(running=3)
        back = _scrape(_target(server.address), *times, 70.0, goes=(server, 5.0), comes_at=70.0)
        assert back[-1] == "# TYPE vll"
        assert server.asked[-1] == "/metrics"


def test_nobody_is_sent_to_another_server_and_no_word_of_its_answer_is_told() -> None:
    with serving() as inner, serving() as outer:
        inner.page = "SECRET-OF-ANOTHER-SERVICE and more"
        outer.redirects_to = f"http://{inner.address}/metrics"
        (told,) = _scrape(_target(outer.address), 0.0)
        assert inner.asked == []
        assert f"redirects to http://{inner.address}, which is not followed" in told
        outer.redirects_to = f"http://localhost:{inner.address.rpartition(':')[2]}/metrics"
        (told,) = _scrape(_target(outer.address), 0.0)
        assert inner.asked == []
        assert "redirects to another server, which is not followed" in told
        (told,) = _scrape(_target(inner.address), 0.0)
        assert "200, not a metrics page" in told
        assert "SECRET" not in told


def test_a_key_is_shown_to_the_one_who_was_asked_and_on_no_other_path() -> None:
    with serving() as server:
        server.page = vllm_page(running=3)
        server.redirects_to = "/elsewhere"
        page = f"http://{server.address}/metrics"
        free = Target(replica_id="g", deployment="", address="g", page=page)
        assert _scrape(free, 0.0) == ["# TYPE vll"]
        (told,) = _scrape(replace(free, bearer="key"), 0.0)
        assert "redirects whoever shows a key" in told
        assert [each.get("authorization") for each in server.headers] == [None, None, "Bearer key"]


def test_no_proxy_of_the_environment_sees_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server, serving() as proxy:
        server.page = vllm_page(running=3)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.address}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert _scrape(_target(server.address), 0.0) == ["# TYPE vll"]
        assert proxy.asked == []


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
