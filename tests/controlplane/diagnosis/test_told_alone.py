"""What somebody told of an incident, put alone into a sound engine's minute, makes no incident.

Keys are people's own words, so a rule's words have look-alikes everywhere. Every told fact of every
case stands here once where nothing is measured to be wrong: it is never CERTAIN harm, and LIKELY
harm only where the fact says the harm itself. `TOLD_ALONE=all` tries all of them, in ten
minutes of CPU; without it one case in `_ONE_IN`, each fact in one of the windows by turns.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Finding
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import read_case
from controlplane.diagnosis.views.told import plain
from tests.controlplane.diagnosis.recorded import recorded_window

_CASES = sorted((Path(__file__).parents[2] / "incidents").rglob("*.yaml"))
_WINDOWS = ("vllm-busy", "vllm-idle", "sglang-busy")
_ALL = os.environ.get("TOLD_ALONE") == "all"
_ONE_IN = 1 if _ALL else 30

_SAYS_HARM: tuple[tuple[Mechanism, str], ...] = (
    # Somebody counted requests that were refused.
    (Mechanism.POLICY_REJECTING, r"^(http|answered) (4\d\d|503)"),
    # A reader says that it finds nothing, or asks for a name that the page does not have.
    (Mechanism.TELEMETRY_MISSING, r"no (series|data)|unknown|never evaluated|HTTP 404|: \{\}"),
    (Mechanism.TELEMETRY_MISSING, r"(alert|rule|target|query|reads): .*[:_][a-z_]+"),
    # Whoever acts on what is two minutes old does not see what is.
    (Mechanism.TELEMETRY_STALE, r"^age of endpoint sample"),
    # The writer itself stands, or what is to be delivered piles up.
    (
        Mechanism.DELIVERY_SLOW_CLIENT,
        r"blocked on write|writes blocked|undelivered|unsent|dropped for full",
    ),
    (
        Mechanism.DELIVERY_SLOW_CLIENT,
        r"consumer queue|lag s blocked|socket write|send buffer|unacked",
    ),
    (
        Mechanism.DELIVERY_SLOW_CLIENT,
        r"socket send queue|sleeps between reads|receive window|gap max s by stream",
    ),
    # Whoever expects more of a gauge takes it for something else.
    (Mechanism.TELEMETRY_MISREAD, r"expects usage|usage stays at"),
    # Requests, counted by replica or by caller, with nearly all of them at one.
    (Mechanism.ROUTING_SKEW, r"^(running|waiting) by replica"),
    (Mechanism.TENANT_FLOOD, r"by (key|tenant)|busiest key"),
    # Of each step, or of each request: most of the time is lost there.
    (Mechanism.COMMUNICATION_BOUND, r"share of (prefill )?step|time in collectives|reduce.* \d+ %"),
    (Mechanism.HOST_BOUND, r"gap between steps|scheduler execute share"),
    # The client's own process says that it has no time left, or has not sent.
    (Mechanism.LOAD_GENERATOR_BOUND, r"cpu (percent|s per request)|(not yet sent|pending).*client"),
    (Mechanism.LOAD_GENERATOR_BOUND, r"client.*event loop lag"),
    # A kernel or a manager of containers says whom it killed, and for what.
    (Mechanism.OOM_HOST_MEMORY, r"OOMKilled|Out of memory: Killed"),
    # Somebody counts on hits, and the recorded pages of vLLM have prompts shorter than a block.
    (
        Mechanism.CACHE_NOTHING_SHARED,
        r"hits?|cached|shared?|common|distinct|differ|prefix|begins?|identical|history|reuse"
        r"|template|system prompt|instruction|first (line|tokens?|bytes)",
    ),
    # What was found before a change, beside a page that finds next to nothing.
    (Mechanism.CACHE_PREFIX_LOSS, r"^hit rate before"),
    # A clock that was held against another.
    (Mechanism.CLOCK_SKEW, r"minus|offset|skew|drift"),
    # A time for each request that is most of what its first token takes on the page.
    (Mechanism.TRANSFER_BOUND, r"^kv (copy|transfer) ms"),
    # Streams stand while the page shows that the engine keeps its pace.
    (Mechanism.DELIVERY_SLOW_CLIENT, r"^streams stalled"),
    # The same with more at once was measured, and did more.
    (Mechanism.BATCH_UNDERFILLED, r"per s with \d+ seats"),
)
"""Of which mechanism, and by what words of key and value."""


@cache
def _told() -> tuple[Fact, ...]:
    """Each key with each value once."""
    found: dict[tuple[str, str], Fact] = {}
    for path in _CASES[::_ONE_IN]:
        case = read_case(path.read_text(encoding="utf-8"), path.name)
        for fact in case.window.facts:
            found.setdefault((fact.key, fact.raw), fact)
    return tuple(found.values())


@pytest.mark.parametrize("name", _WINDOWS)
def test_it_is_no_harm_that_nothing_measured_shows(name: str) -> None:
    mine = _told() if _ALL else _told()[_WINDOWS.index(name) :: len(_WINDOWS)]
    wrong = [sentence for fact in mine for sentence in _harm(name, fact)]
    assert not wrong, "\n".join(wrong)


def _harm(name: str, fact: Fact) -> Iterator[str]:
    seen = recorded_window(name)
    told = replace(seen, facts=(*seen.facts, replace(fact, at=seen.end)))
    diagnosis = diagnose(told, BUILT_IN_RULES)
    for finding in diagnosis.findings:
        is_said = finding.confidence is Confidence.LIKELY and _says_it(finding, fact)
        if not (finding.mechanism is Mechanism.HEALTHY or is_said):
            yield f"{fact.key} {fact.raw}: {finding.mechanism} ({finding.confidence.word})"


def _says_it(finding: Finding, fact: Fact) -> bool:
    text = f"{plain(fact.key)}: {fact.raw}"
    return any(
        finding.mechanism is mechanism and re.search(words, text, re.IGNORECASE)
        for mechanism, words in _SAYS_HARM
    )
