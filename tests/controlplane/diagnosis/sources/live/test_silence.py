"""A server without a metrics page is evidence: its process is gone, stands still or lives."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rule_book import load_rules
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.live.address import read_address
from controlplane.diagnosis.sources.live.failures import NoMetricsError, Try
from controlplane.diagnosis.sources.live.page import create_http
from controlplane.diagnosis.sources.live.silence import Silence, listen
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.cli.strange_server import strange_server


async def _listened(url: str, first: Try) -> Silence:
    async with create_http() as http:
        error = NoMetricsError(url, [first])
        return await listen(http, read_address(url), error, seconds=0.2)


def judged(
    url: str, *, answer: str = "no answer within 5 s", status: int | None = None
) -> Diagnosis:
    """What the rules say of a server that answered so to whoever asked for its metrics."""
    first = Try(f"{url}/metrics", answer, status, answer)
    silence = asyncio.run(_listened(url, first))
    window = Window(start=0, end=15, facts=facts_of(silence.said, 15.0))
    return diagnose(window, load_rules())


@pytest.fixture
def port_of_nobody() -> Iterator[socket.socket]:
    """It takes connections, and nobody reads what comes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_a_port_that_takes_connections_and_answers_nothing_may_be_a_hung_engine(
    port_of_nobody: socket.socket,
) -> None:
    found = judged(f"http://127.0.0.1:{port_of_nobody.getsockname()[1]}")
    assert found.mechanism is Mechanism.CANNOT_TELL
    [hung] = found.possible
    assert hung.mechanism is Mechanism.ENGINE_HUNG
    assert ("connection", "accepted") in {(each.name, each.text[:8]) for each in hung.verdict.told}
    assert any("stacks" in need for need in found.needs)


def test_a_refused_connection_asks_why_the_process_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = closing.getsockname()[1]
    found = judged(f"http://127.0.0.1:{port}", answer="ConnectError")
    assert (found.mechanism, found.possible) == (Mechanism.CANNOT_TELL, ())
    assert any("connection refused" in each for each in found.seen)
    assert any("why it ended" in need for need in found.needs)


@pytest.mark.parametrize("answer", ["404 text/plain", "no answer within 5 s"])
def test_an_engine_that_lists_its_models_and_shows_no_metrics_lacks_them(answer: str) -> None:
    with strange_server(200, '{"data": [{"id": "m"}]}') as (url, _):
        found = judged(url, answer=answer, status=404 if "404" in answer else None)
    assert found.mechanism is Mechanism.TELEMETRY_MISSING
    assert found.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    ("status", "need"), [(500, "why it fails with 500"), (401, "--engine-key-file"), (404, "proxy")]
)
def test_what_answers_and_is_no_engine_is_not_called_one(status: int, need: str) -> None:
    with strange_server(status, "no") as (url, _):
        found = judged(url, answer=f"{status} text/plain", status=status)
    assert (found.mechanism, found.possible) == (Mechanism.CANNOT_TELL, ())
    assert any(need in each for each in found.needs)


@pytest.mark.parametrize(
    ("running", "why", "mechanism"),
    [
        (4.0, "no answer within 5 s", Mechanism.ENGINE_HUNG),
        (0.0, "no answer within 5 s", Mechanism.CANNOT_TELL),
        (4.0, "ConnectError: All connection attempts failed", Mechanism.CANNOT_TELL),
    ],
)
def test_an_engine_that_falls_silent_at_work_hangs_and_one_that_refuses_is_gone(
    running: float, why: str, mechanism: Mechanism
) -> None:
    facts, doubts = told_of_failures([FailedScrape(at, "h:1", why) for at in (10, 16, 22)], 8)
    series = Series(
        signal=Signal.RUNNING,
        origin=Origin(kind=SourceKind.METRICS, name="vllm:num_requests_running", place="h:1"),
        readings=tuple(Reading(at, running, f"{running:g}") for at in (1, 2, 3, 4, 5)),
    )
    found = diagnose(
        Window(start=0, end=27, series=(series,), facts=facts, doubts=doubts), load_rules()
    )
    assert found.mechanism is mechanism
