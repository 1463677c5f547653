"""It answered nothing for a while, within a watch, and answers again."""

import re
import statistics
from itertools import pairwise

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import NO_ANSWER
from dataplane.engine_metrics.signal import Signal

_TIMED_OUT = re.compile(NO_ANSWER, re.IGNORECASE)
_LEAST_SECONDS = 8.0
"""Without a page. Some servers answer between two steps only, and no step takes so long."""
_TIMES_USUAL = 4.0
_LEAST_UNANSWERED = 2
_LEAST_PAGES = 3
"""Before it or after it, together."""
_HARDLY = 0.25
"""Of what is computed in so long a time otherwise."""


def judge(window: Window) -> Verdict | None:
    """POSSIBLE: that it stood is seen, and what stood (its steps, its front end, the way to it) is
    not."""
    unanswered = number_of(told(window, r"^scrapes unanswered$"))
    reason = told(window, r"^scrape failure$")
    gap = _longest_gap(window)
    if reason is None or gap is None or (unanswered or 0) < _LEAST_UNANSWERED:
        return None
    if not _TIMED_OUT.search(reason.raw):
        return None
    start, end = gap
    lasted = number(end - start)
    argument = Argument(window)
    argument.says(
        f"no page for {lasted} s, {number(window.end - end)} s before the end of what was watched: "
        "pages before, and pages since"
    )
    argument.fact(reason, "connections are taken, and nothing is said")
    _weigh_tokens(argument, window, start, end)
    argument.need(
        "the gaps between tokens that users saw at that moment",
        "whether its process was stopped, swapped or throttled (SIGSTOP, CPU quota)",
        "its log around that moment",
        "whether it comes again: a longer watch, or the same on the engine's own machine",
    )
    return argument.verdict(
        Confidence.POSSIBLE, detail=f"nothing was answered for {lasted} s, and it is again"
    )


def _longest_gap(window: Window) -> tuple[float, float] | None:
    """Between two pages of one endpoint, much longer than usual, within what was watched."""
    pages = [
        each
        for each in window.series
        if each.origin.kind is SourceKind.METRICS and not each.signal.value.startswith("gateway")
    ]
    if any("replica" in each.labels for each in pages):
        return None  # of several, each has pages of its own
    moments = sorted({reading.at for each in pages for reading in each.readings})
    if len(moments) < _LEAST_PAGES + 1:
        return None
    gaps = list(pairwise(moments))
    usual = statistics.median(end - start for start, end in gaps)
    start, end = max(gaps, key=lambda gap: gap[1] - gap[0])
    if end - start < max(_LEAST_SECONDS, _TIMES_USUAL * usual):
        return None
    return start, end


def _weigh_tokens(argument: Argument, window: Window, start: float, end: float) -> None:
    """Whether work went on unseen, by what was computed from the last page to the next one."""
    tokens = window.find(Signal.GENERATION_TOKENS)
    across = None if tokens is None else tokens.between(start, end)
    if tokens is None or across is None or not tokens.increase or across.increase is None:
        return
    if across.last.value >= across.first.value:
        argument.against("a process that was restarted: its counters go on where they were")
    rest = tokens.span_seconds - across.span_seconds
    usual = (tokens.increase - across.increase) / rest if rest > 0 else 0.0
    if usual <= 0:
        return
    name, came = tokens.origin.name, number(across.increase)
    argument.says(
        f"{name} {across.first.raw} -> {across.last.raw} meanwhile; {number(usual * (end - start))}"
        " in so long a time otherwise"
    )
    if across.increase > _HARDLY * usual * (end - start):
        argument.against(
            f"{came} tokens came meanwhile: then its steps went on, and only its "
            "front end, or the way to it, stood"
        )


STALLED = Rule(
    id="engine-stalled",
    mechanism=Mechanism.ENGINE_HUNG,
    judge=judge,
    needs=("its metrics page, read often", "scrapes that time out between others that do not"),
    told_apart="From an engine that hangs by pages that come again; from a process that was "
    "restarted by counters that go on; from a slow page by a gap of many usual ones.",
    remedy="Hold it against the gaps that users saw. What stops a whole process is found on its "
    "machine: throttling, swap, a freezer, a debugger, another tenant.",
    hides="A watch without a pause says only that it was not seen this time.",
    stands_beside=True,
)
