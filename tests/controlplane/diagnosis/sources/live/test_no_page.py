"""A server that answers, and with no metrics page, is neither down nor hung."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule_book import load_rules
from controlplane.diagnosis.sources.live import NoMetricsError, watch
from controlplane.diagnosis.sources.live.failures import Try
from controlplane.diagnosis.sources.live.page import get_page
from tests.controlplane.cli.strange_server import strange_server


async def _all(url: str) -> None:
    async for _ in watch([url], seconds=0.5, every=0.1):
        pass


def _refusal(url: str) -> NoMetricsError:
    with pytest.raises(NoMetricsError) as raised:
        asyncio.run(_all(url))
    return raised.value


@contextmanager
def _saying(data: bytes) -> Iterator[str]:
    """A server that says so to whoever connects, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _is_called_no_page(error: NoMetricsError) -> Try:
    first = error.tries[0]
    assert first.is_answered
    assert not error.is_unanswered
    assert "does not answer" not in str(error)
    assert "hung" not in str(error)
    assert error.window is not None
    found = diagnose(error.window, load_rules())
    assert Mechanism.ENGINE_HUNG not in {
        found.mechanism,
        *(each.mechanism for each in found.possible),
    }
    assert not any(each.key.startswith("scrapes unanswered") for each in error.window.facts)
    return first


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("http://127.0.0.1:1/metrics", "http://127.0.0.1:1"),
        ("http://other.example:81/x?key=1", "http://other.example:81"),
    ],
)
def test_a_redirect_is_told_with_where_it_leads(location: str, named: str) -> None:
    with strange_server(302, "", {"location": location}) as (url, _):
        first = _is_called_no_page(_refusal(url))
    assert f"redirects to {named}," in first.answer
    assert "key" not in first.answer


def test_who_may_not_read_answers_is_not_told_of_another_server() -> None:
    with strange_server(302, "", {"location": "http://other.example/x"}) as (url, _):
        first = _is_called_no_page(_refusal(url))
    assert "other.example" not in first.kind


def test_redirects_without_end_are_told() -> None:
    with strange_server(302, "", {"location": "/metrics"}) as (url, _):
        assert "redirects more than" in _is_called_no_page(_refusal(url)).answer


def test_a_page_beyond_the_bound_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {**(get_page.__kwdefaults__ or {}), "max_bytes": 100}
    monkeypatch.setattr(get_page, "__kwdefaults__", defaults)
    with strange_server(200, "a 1\n" * 100) as (url, _):
        assert "longer than 100 bytes" in _is_called_no_page(_refusal(url)).answer


def test_what_is_no_http_is_told() -> None:
    with _saying(b"\x00\xff\x1b[2J" * 50) as url:
        assert "is no HTTP" in _is_called_no_page(_refusal(url)).answer


def test_a_web_page_is_told() -> None:
    html = "<!doctype html><title>Login</title>"
    with strange_server(200, html, {"content-type": "text/html"}) as (url, _):
        assert "HTML page" in _is_called_no_page(_refusal(url)).answer


def test_who_hangs_up_without_a_word_has_not_answered() -> None:
    with _saying(b"") as url:
        error = _refusal(url)
    assert error.is_unanswered
    assert "does not answer" in str(error)
    assert "runbook engine.hung" in str(error)
