"""Engines that answer over HTTP are found, asked who they are, and scraped for a while."""

import asyncio
import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.live import NoMetricsError, Progress, StoppedError, watch
from controlplane.diagnosis.sources.live.address import read_address
from controlplane.diagnosis.sources.live.discovery import find_metrics
from controlplane.diagnosis.sources.live.page import PageAnswer, PageError, create_http, get_page
from controlplane.diagnosis.window import DoubtKind, EngineName, Window
from dataplane.engine_metrics.signal import Signal

Answer = tuple[int, str]
Pages = dict[str, Answer | Callable[[], Answer]]


@contextmanager
def engine(pages: Pages) -> Iterator[tuple[str, list[str]]]:
    """A server of `pages` by path and query; its address, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            found = pages.get(self.path, (404, "not here"))
            status, text = found() if callable(found) else found
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Nothing: tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def counting(name: str) -> Callable[[], Answer]:
    """A page whose counter rises by one at each scrape."""
    counts = iter(range(1, 1000))
    return lambda: (200, f"vllm:num_requests_running 2\n{name} {next(counts)}\n")


async def _watch(*urls: str, should_probe: bool = False) -> tuple[list[Progress], Window]:
    progress: list[Progress] = []
    windows: list[Window] = []
    async for told in watch(
        urls, seconds=0.15, every=0.05, should_probe=should_probe, probe_deadline_seconds=0.2
    ):
        (windows if isinstance(told, Window) else progress).append(told)  # type: ignore[arg-type]
    (window,) = windows
    return progress, window


def test_an_engine_is_watched_and_says_who_it_is() -> None:
    pages: Pages = {
        "/metrics": counting("vllm:generation_tokens_total"),
        "/version": (200, '{"version": "0.32.0"}'),
        "/v1/models": (200, '{"data": [{"id": "demo", "max_model_len": 4096}]}'),
        "/health": (200, ""),
    }
    with engine(pages) as (url, asked):
        progress, window = asyncio.run(_watch(f"{url}/v1"))
    assert window.engine == EngineName(name="vllm", version="0.32.0")
    tokens = window.find(Signal.GENERATION_TOKENS)
    assert tokens is not None
    assert len(tokens.readings) == 1 + len(progress)
    assert tokens.increase == len(progress)
    assert tokens.first.at > 1.7e9, "the clock is Unix time"
    assert window.number("max model len") == 4096
    assert window.number("health") == 200
    assert progress[-1].num_failed == 0
    assert not any(line.startswith("POST") for line in asked)


def test_a_model_is_chosen_where_llamacpp_serves_several() -> None:
    pages: Pages = {
        "/metrics": (400, '{"error": {"message": "model name is missing from the request"}}'),
        "/metrics?model=loaded": (200, "llamacpp:requests_processing 3\n"),
        "/v1/models": (
            200,
            json.dumps(
                {
                    "data": [
                        {"id": "other", "status": {"value": "unloaded"}},
                        {"id": "loaded", "status": {"value": "loaded"}},
                    ]
                }
            ),
        ),
        "/slots": (200, '[{"id": 0, "n_ctx": 2048, "is_processing": true}, {"n_ctx": 2048}]'),
        "/props": (200, '{"total_slots": 2, "build_info": "b7000-abc"}'),
    }
    with engine(pages) as (url, asked):
        _, window = asyncio.run(_watch(url))
    assert window.engine == EngineName(name="llama.cpp", version="b7000-abc")
    assert window.number("slots busy") == 1
    assert window.number("n ctx") == 2048
    assert "GET /metrics?model=other" not in asked


def test_several_engines_are_replicas_of_one_window() -> None:
    with (
        engine({"/metrics": (200, "vllm:num_requests_running 1\n")}) as (one, _),
        engine({"/metrics": (200, "vllm:num_requests_running 7\n")}) as (two, _),
    ):
        _, window = asyncio.run(_watch(one, two))
    found = {each.labels["replica"]: each.last.value for each in window.series}
    assert found == {one.removeprefix("http://"): 1, two.removeprefix("http://"): 7}


def test_scrapes_that_fail_are_counted_and_told() -> None:
    answers = iter([(200, "vllm:num_requests_running 1\n")])
    with engine({"/metrics": lambda: next(answers, (503, "no"))}) as (url, _):
        progress, window = asyncio.run(_watch(url))
    num_failed = progress[-1].num_failed
    assert num_failed == len(progress)
    assert window.number("scrapes unanswered") == num_failed
    assert any(
        doubt.kind is DoubtKind.MISSING and f"{num_failed} scrapes (503)" in doubt.what
        for doubt in window.doubts
    )


def test_one_that_answered_and_refuses_to_the_end_of_the_look_is_gone() -> None:
    """Time goes five seconds a scrape."""
    times = iter(range(1000, 9000, 5))

    async def run() -> Window:
        found = None
        with contextlib.ExitStack() as stack:
            url, _ = stack.enter_context(engine({"/metrics": counting("vllm:a_total")}))
            watching = watch([url], seconds=1.0, every=0.1, clock=lambda: float(next(times)))
            async for each in watching:
                if isinstance(each, Window):
                    found = each
                elif each.num_scrapes == 3:
                    await asyncio.to_thread(stack.close)
        assert found is not None
        return found

    diagnosis = diagnose(asyncio.run(run()), BUILT_IN_RULES)
    assert (diagnosis.mechanism, diagnosis.confidence) == (
        Mechanism.ENGINE_GONE,
        Confidence.CERTAIN,
    )


def test_a_probe_is_sent_when_asked_for_and_its_answer_is_a_fact() -> None:
    pages: Pages = {
        "/metrics": (200, "vllm:num_requests_running 1\n"),
        "/v1/completions": (200, "{}"),
    }
    with engine(pages) as (url, asked):
        _, window = asyncio.run(_watch(url, should_probe=True))
    fact = window.fact("probe one token")
    assert fact is not None
    assert fact.raw.startswith("answered in ")
    assert asked.count("POST /v1/completions") == 1


def test_a_probe_without_an_answer_says_how_long_it_waited() -> None:
    answered = threading.Event()

    def late() -> Answer:
        answered.wait(10)
        return 200, "{}"

    pages: Pages = {
        "/metrics": (200, "vllm:num_requests_running 1\n"),
        "/v1/completions": late,
    }
    with engine(pages) as (url, _):
        _, window = asyncio.run(_watch(url, should_probe=True))
        answered.set()
    fact = window.fact("probe one token")
    assert fact is not None
    assert fact.raw == "no answer in 0.2 s"


def test_an_address_without_metrics_tells_what_was_tried_and_what_helps() -> None:
    with (
        engine({"/metrics": (200, "<html><title>Welcome</title>")}) as (url, _),
        pytest.raises(NoMetricsError) as raised,
    ):
        asyncio.run(_watch(url))
    assert [each.url for each in raised.value.tries] == [
        f"{url}/metrics",
        f"{url}/prometheus/metrics",
    ]
    assert "an HTML page titled `Welcome`" in str(raised.value)
    assert "--enable-metrics" in str(raised.value)


def test_addresses_are_read_with_and_without_their_paths() -> None:
    for text in ("h:8000", "http://h:8000/", "http://h:8000/v1", "h:8000/v1/"):
        address = read_address(text)
        assert str(address.metrics[0]) == "http://h:8000/metrics"
        assert address.label == "h:8000"
    one = read_address("https://h/vllm/metrics?model=a")
    assert [str(each) for each in one.metrics] == ["https://h/vllm/metrics?model=a"]
    assert str(one.root) == "https://h/vllm"
    with pytest.raises(ValueError, match="is no address"):
        read_address("ftp://x")


def test_of_several_one_that_does_not_answer_is_an_observation() -> None:
    with engine({}) as (dead, _):
        pass
    with engine({"/metrics": counting("vllm:generation_tokens_total")}) as (url, _):
        _, window = asyncio.run(_watch(url, dead))
    assert window.find(Signal.GENERATION_TOKENS) is not None
    [doubt] = [each for each in window.doubts if each.name == read_address(dead).label]
    assert doubt.kind is DoubtKind.MISSING
    unanswered = window.number("scrapes unanswered")
    assert unanswered is not None
    assert unanswered >= 2


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "--engine-key-file"), (404, "--enable-metrics")],
)
def test_why_there_is_no_page_says_what_to_do(status: int, words: str) -> None:
    with (
        engine({"/metrics": (status, "no")}) as (url, _),
        pytest.raises(NoMetricsError, match=words),
    ):
        asyncio.run(_watch(url))


def test_a_server_that_is_gone_is_not_said_to_have_no_metrics() -> None:
    with engine({}) as (url, _):
        pass
    with pytest.raises(NoMetricsError, match=r"does not answer.*runbook engine\.gone"):
        asyncio.run(_watch(url))


async def _answer(url: str, chunk: bytes, pause: float) -> PageAnswer:
    """What `get_page` makes of a server that sends `chunk` again and again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(pause)
        except ConnectionError:
            gone.set()
        finally:
            writer.close()

    gone = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx.AsyncClient() as http:
        return await get_page(http, httpx.URL(url.format(port=port)), max_bytes=2**20, seconds=0.3)


@pytest.mark.parametrize(
    ("chunk", "pause", "words"),
    [(b"x" * 65536, 0.0, "longer than 1 MiB"), (b"x", 0.02, "bytes of an answer within 0.3 s")],
    ids=["endless", "dripping"],
)
def test_an_answer_is_read_within_bounds(chunk: bytes, pause: float, words: str) -> None:
    with pytest.raises(PageError, match=words):
        asyncio.run(_answer("http://127.0.0.1:{port}/metrics", chunk, pause))


@pytest.mark.parametrize("how", ["content-encoding: gzip\r\n", "", "content-encoding: br\r\n"])
def test_a_small_answer_that_unpacks_to_a_large_one_is_not_unpacked(how: str) -> None:
    packed = gzip.compress(bytes(2**22))

    async def run() -> PageAnswer:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 200 OK\r\n{how}connection: close\r\n\r\n".encode() + packed)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = httpx.URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
        async with server, create_http() as http:
            return await get_page(http, url, max_bytes=2**20)

    with pytest.raises(PageError, match=r"longer than 1 MiB|not asked for"):
        asyncio.run(run())


def test_a_host_without_an_address_is_no_engine_that_hangs() -> None:
    with pytest.raises(NoMetricsError, match=r"name does not resolve \(\D+\)\. Look for") as raised:
        asyncio.run(_watch("http://nosuchhost.invalid:8000"))
    assert raised.value.window is None
    assert "Errno" not in str(raised.value)


def test_a_server_that_answers_nothing_in_time_is_not_asked_for_another_path() -> None:
    async def asked(url: str) -> None:
        async with create_http() as http:
            await find_metrics(http, read_address(url), seconds=0.1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(NoMetricsError) as raised:
            asyncio.run(asked(url))
    assert [each.url for each in raised.value.tries] == [f"{url}/metrics"]


def test_who_had_enough_before_anything_was_seen_is_told_so() -> None:
    async def stopped() -> None:
        enough = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, enough.set)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async for _ in watch([url], enough=enough):
                pytest.fail("nothing answers there")

    with pytest.raises(StoppedError, match="before anything was seen"):
        asyncio.run(stopped())
