"""An address whose metrics page nobody answers, from the first scrape on or from one on."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.server_pages import ServerPages, pages_of_each
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import NO_ANSWER
from dataplane.engine_metrics.signal import Signal

_TIMED_OUT = re.compile(NO_ANSWER, re.IGNORECASE)
"""A process that died refuses connections; one that stands still takes them and says nothing."""
_STATUS = re.compile(r"^[1-5]\d\d\b")
_LEAST_SECONDS = 10.0
"""Two scrapes that time out. One may meet a long pause."""


def _judge_hung(window: Window) -> Verdict | None:
    """POSSIBLE of an address that never answered: nothing shows that an engine is behind it. LIKELY
    of an engine that worked while it was watched, or whose probe is not answered either."""
    pages = pages_of_each(window)
    silent = {name: each for name, each in pages.items() if each.is_silent}
    if silent:
        return _never_answered(window, silent)
    return None if "" in pages else _fell_silent(window)


def _never_answered(window: Window, silent: Mapping[str, ServerPages]) -> Verdict:
    argument = Argument(window)
    names = ", ".join(filter(None, silent))
    answering = ", ".join(sorted(filter(None, _pages_by_server(window))))
    if names and answering:
        argument.says(f"{names} takes calls and answers none, and meanwhile {answering} answers")
    for name, pages in silent.items():
        argument.fact(pages.connection, "somebody listens")
        for page in (pages.metrics, pages.health, pages.models):
            argument.fact(page)
        argument.fact(_newest(window, "scrapes unanswered", name))
    argument.against("a process that is gone: its port would refuse connections")
    argument.against("delivery.front_end_bound: a busy front end answers late, and /health first")
    argument.need(
        "whether it is the engine that listens there, and by http or https",
        "the end of its log: `pilothouse diagnose engine.log`",
        "its stacks, before a restart takes them away (py-spy dump)",
        "whether its process is stopped or waits for the device (state T or D in ps)",
    )
    detail = f"{names} takes calls and answers none" if names else "nothing is answered"
    return argument.verdict(Confidence.POSSIBLE, detail=detail)


class _Fallen(NamedTuple):
    """One that was watched, showed pages, and answers no more."""

    name: str
    """Empty of one alone."""
    why: Fact
    seconds: float
    running: Series | None
    probe: Fact | None

    @property
    def is_wanted(self) -> bool:
        """It was at work, or does not answer a request either."""
        is_at_work = self.running is not None and self.running.last.value > 0
        return is_at_work or (self.probe is not None and bool(_TIMED_OUT.search(self.probe.raw)))


def _fell_silent(window: Window) -> Verdict | None:
    """Those that gateways call are weighed against what these meet (`life.silent_engine`)."""
    fallen = [] if window.facts_of("shows no page since") else list(_fallen(window))
    if not fallen:
        return None
    argument = Argument(window)
    for each in fallen:
        argument.fact(each.why, "it takes connections and says nothing")
        argument.says(f"no page for the last {each.seconds:.0f} s, and pages before")
        argument.series(each.running)
        argument.fact(each.probe)
    argument.against("telemetry.stale: nothing at all is answered")
    argument.against("a process that is gone: its port would refuse connections")
    argument.need("the end of its log", "its stacks, before a restart takes them away")
    if all(each.probe is None for each in fallen):
        argument.need("a one-token probe (--probe)")
    names = ", ".join(each.name for each in fallen if each.name)
    return argument.verdict(
        Confidence.LIKELY if any(each.is_wanted for each in fallen) else Confidence.POSSIBLE,
        detail=f"{names} fell silent" if names else "it fell silent",
    )


def _fallen(window: Window) -> Iterator[_Fallen]:
    for name, series in _pages_by_server(window).items():
        why = _newest(window, "scrape failure", name)
        seconds = window.end - max(each.last.at for each in series)
        if why is None or seconds < _LEAST_SECONDS or not _TIMED_OUT.search(why.raw):
            continue
        running = [each for each in series if each.signal is Signal.RUNNING]
        busiest = max(running, key=lambda each: each.last.value, default=None)
        yield _Fallen(name, why, seconds, busiest, _newest(window, "probe one token", name))


def _pages_by_server(window: Window) -> dict[str, list[Series]]:
    """By its name, empty where one alone was watched."""
    found: dict[str, list[Series]] = {}
    for each in window.series:
        if each.origin.kind is SourceKind.METRICS:
            found.setdefault(each.labels.get("replica", ""), []).append(each)
    return found


def _newest(window: Window, phrase: str, name: str) -> Fact | None:
    """Told of the server of that name; of one alone as a whole."""
    found = [fact for fact in window.facts_of(phrase) if (fact.part or "") == name]
    return found[-1] if found else None


def _judge_missing(window: Window) -> Verdict | None:
    """LIKELY where it lists its models and nobody shows metrics: it runs, and nobody sees how. One
    without them beside others that have them may be a router."""
    if window.exported_names:
        return None
    listing = [(name, each) for name, each in pages_of_each(window).items() if each.is_engine]
    if not listing:
        return None
    name, pages = listing[0]
    at = f" at {name}" if name else ""
    argument = Argument(window)
    argument.fact(pages.models, "an engine, or a router before engines, is there and answers")
    argument.fact(pages.health)
    argument.fact(pages.metrics, "no metrics")
    argument.against("engine.hung: it answers what it is asked beside its metrics")
    argument.need("its metrics page", "its log", "a one-token probe")
    is_locked = re.match(r"40[13]\b", pages.metrics.raw) is not None
    return argument.verdict(
        Confidence.LIKELY,
        detail=f"the metrics page is not answered{at}"
        if not _STATUS.match(pages.metrics.raw)
        else f"the metrics page answers {pages.metrics.raw.split(',')[0]}{at}",
        remedy="Name a file that holds its key with --engine-key-file." if is_locked else None,
    )


SILENT = Rule(
    id="engine-silent",
    mechanism=Mechanism.ENGINE_HUNG,
    judge=_judge_hung,
    needs=("what its port, its metrics page and its health page answer",),
    told_apart="From a process that is gone by a port that takes connections; from one that shows "
    "no metrics by its other pages, which are not answered either.",
    remedy=HUNG.remedy,
    hides=HUNG.hides,
    explains=HUNG.explains,
)
NO_PAGE = Rule(
    id="telemetry-no-page",
    mechanism=Mechanism.TELEMETRY_MISSING,
    judge=_judge_missing,
    needs=("what its metrics page and its list of models answer",),
    told_apart="From an engine that hangs by the other pages of the same server, which answer.",
    remedy="Switch metrics on (SGLang --enable-metrics, llama.cpp --metrics), or ask the engine "
    "itself and not the router before it.",
    hides="That metrics come back says nothing of what went on while there were none.",
)
