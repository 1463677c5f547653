"""Of several servers that are watched, the one that takes calls and answers none is named."""

import asyncio
import socket
from collections.abc import Iterator
from itertools import count

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis, Finding
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.telemetry.unanswered import SILENT
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.live import Progress, watch
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.sources.live.test_watching import Answer, engine

FROZEN, WELL = "10.0.0.1:8000", "10.0.0.2:8000"


@pytest.fixture
def frozen() -> Iterator[str]:
    """It takes connections, and nobody reads what comes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def _watched(*urls: str) -> Window:
    async for each in watch(urls, seconds=1.0, every=0.2):
        if not isinstance(each, Progress):
            return each
    raise AssertionError("no window came")


def _hung(found: Diagnosis) -> Finding:
    [hung] = [
        each
        for each in (*found.findings, *found.possible)
        if each.mechanism is Mechanism.ENGINE_HUNG
    ]
    return hung


def test_one_that_never_answered_is_named_beside_one_that_does(frozen: str) -> None:
    made = count(0, 8)

    def page() -> Answer:
        text = f"vllm:num_requests_running 2\nvllm:generation_tokens_total {next(made)}\n"
        return 200, text

    with engine({"/metrics": page}) as (well, _):
        seen = asyncio.run(_watched(f"http://{frozen}", well))
    found = diagnose(seen, BUILT_IN_RULES)
    hung = _hung(found)
    assert found.mechanism is not Mechanism.HEALTHY
    assert hung.confidence is Confidence.POSSIBLE
    assert frozen in (hung.verdict.detail or "")
    assert well.removeprefix("http://") not in (hung.verdict.detail or "")
    assert (f"connection.{frozen}", "accepted") in {
        (each.name, each.text[:8]) for each in hung.verdict.told
    }


def _fell(why: str, *others: Fact) -> Window:
    """Both showed pages until the third second; then one goes on alone until the fifteenth."""
    failed = [FailedScrape(at, FROZEN, why) for at in (3.0, 8.0, 13.0)]
    return window(
        series(Signal.RUNNING, 2, 2, 2, every=1, replica=FROZEN),
        series(Signal.GENERATION_TOKENS, 0, 40, 80, every=1, replica=FROZEN),
        series(Signal.RUNNING, *[2] * 16, every=1, replica=WELL),
        series(Signal.GENERATION_TOKENS, *range(0, 640, 40), every=1, replica=WELL),
        told_of_failures(failed, 20)[0],
        others,
    )


def test_one_that_fell_silent_at_work_is_likely_to_hang() -> None:
    verdict = SILENT.judge(_fell("no answer within 5 s"))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert FROZEN in (verdict.detail or "")
    assert WELL not in (verdict.detail or "")


def test_one_whose_port_refuses_does_not_hang() -> None:
    assert SILENT.judge(_fell("ConnectError: All connection attempts failed")) is None


def test_what_would_settle_it_is_asked_of_each_that_is_gone() -> None:
    gone = {FROZEN: "refused: nothing listens at its port", WELL: "failed: no route"}
    failed = dict.fromkeys(gone, "ConnectError")
    found = diagnose(window(told(5, connection=gone, page_answer=failed)), BUILT_IN_RULES)
    assert {need.partition(": ")[0] for need in found.needs} == {FROZEN, WELL}
