"""The simulator's core without waiting: a few words, and time that is put forward."""

from collections.abc import Iterator
from typing import Any

from dataplane.engine import EngineRequest, SamplingParams
from dataplane.host.core import CoreEvent
from pilothouse_simulator.core import SimulatorCore
from pilothouse_simulator.settings import parse_settings
from pilothouse_simulator.vocabulary import Vocabulary

END_ID = 63
WORDS = tuple(range(10, 60))
VOCABULARY = Vocabulary(size=64, words=WORDS, end_token_ids=frozenset({END_ID}))


class VirtualWaiting:
    """What is waited for has passed."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def until(self, when: float) -> None:
        self._now = max(self._now, when)


def build_core(waiting: VirtualWaiting | None = None, **settings: Any) -> SimulatorCore:
    """A started core; keywords are settings. Its pool is small: it is looked through often."""
    settings = {"num_blocks": 64} | settings
    core = SimulatorCore("nowhere", parse_settings(settings), waiting or VirtualWaiting(), "r-1")
    core.start(VOCABULARY)
    return core


def make_request(
    request_id: str = "r",
    prompt: tuple[int, ...] = (5, 6, 7),
    *,
    isolation_key: str = "",
    max_output_tokens: int = 1000,
    **sampling: Any,
) -> EngineRequest:
    """Keywords are sampling parameters."""
    return EngineRequest(
        request_id=request_id,
        attempt=0,
        endpoint="/v1/completions",
        prompt_token_ids=prompt,
        isolation_key=isolation_key,
        sampling=SamplingParams(max_output_tokens=max_output_tokens, **sampling),
    )


def serve(core: SimulatorCore) -> Iterator[CoreEvent]:
    """Every event until nothing is left to do."""
    while core.has_work:
        yield from core.schedule()
        yield from core.run()
        core.check_integrity()


def answers_of(events: list[CoreEvent], request_id: str = "r") -> dict[int, list[int]]:
    """Tokens by sequence."""
    answers: dict[int, list[int]] = {}
    for event in events:
        if event.request_id == request_id and event.token_ids:
            answers.setdefault(event.sequence, []).extend(event.token_ids)
    return answers


def ask(core: SimulatorCore, **request: Any) -> list[int]:
    """The one answer to a request."""
    told = core.add(make_request(**request))
    answers = answers_of([*told, *serve(core)], request.get("request_id", "r"))
    assert list(answers) == [0]
    return answers[0]
