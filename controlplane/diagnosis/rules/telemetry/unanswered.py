"""An address whose metrics page nobody answers, from the first scrape on or from one on."""

import re
from typing import NamedTuple

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import told
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import NO_ANSWER
from dataplane.engine_metrics.signal import Signal

_TIMED_OUT = re.compile(NO_ANSWER, re.IGNORECASE)
"""A process that died refuses connections; one that stands still takes them and says nothing."""
_STATUS = re.compile(r"^[1-5]\d\d\b")
_LEAST_SECONDS = 10.0
"""Two scrapes that time out. One may meet a long pause."""
_LEAST_SCRAPES = 2


class _Pages(NamedTuple):
    """What is known of an address that shows no metrics."""

    connection: Fact
    metrics: Fact
    health: Fact | None
    models: Fact | None

    @property
    def is_engine(self) -> bool:
        """It says that it serves models."""
        return self.models is not None and "a list of models" in self.models.raw

    @property
    def is_silent(self) -> bool:
        """It takes connections, and nothing that was asked is answered."""
        asked = [each for each in (self.metrics, self.health, self.models) if each is not None]
        is_taken = self.connection.raw.startswith("accepted")
        return is_taken and all(_TIMED_OUT.search(each.raw) for each in asked)


def _pages(window: Window) -> _Pages | None:
    connection, metrics = told(window, r"^connection$"), told(window, r"^page answer$")
    if connection is None or metrics is None or window.exported_names:
        return None
    return _Pages(
        connection, metrics, told(window, r"^health answer$"), told(window, r"^models answer$")
    )


def _judge_hung(window: Window) -> Verdict | None:
    """POSSIBLE of an address that never answered: nothing shows that an engine is behind it. LIKELY
    of an engine that worked while it was watched, or whose probe is not answered either."""
    pages = _pages(window)
    if pages is not None:
        return _never_answered(window, pages) if pages.is_silent else None
    return _fell_silent(window)


def _never_answered(window: Window, pages: _Pages) -> Verdict:
    argument = Argument(window)
    argument.fact(pages.connection, "somebody listens")
    for page in (pages.metrics, pages.health, pages.models):
        argument.fact(page)
    argument.fact(told(window, r"^scrapes unanswered$"))
    argument.against("a process that is gone: its port would refuse connections")
    argument.against("delivery.front_end_bound: a busy front end answers late, and /health first")
    argument.need(
        "whether it is the engine that listens there, and by http or https",
        "the end of its log: `pilothouse diagnose engine.log`",
        "its stacks, before a restart takes them away (py-spy dump)",
        "whether its process is stopped or waits for the device (state T or D in ps)",
    )
    return argument.verdict(Confidence.POSSIBLE, detail="nothing is answered")


def _fell_silent(window: Window) -> Verdict | None:
    """One endpoint alone: of several, `life.hung_replica` compares them."""
    reason = told(window, r"^scrape failure$")
    series = [each for each in window.series if each.origin.kind.value == "metrics"]
    if reason is None or not series or any("replica" in each.labels for each in series):
        return None
    silent_seconds = window.end - max(each.last.at for each in series)
    if silent_seconds < _LEAST_SECONDS or not _TIMED_OUT.search(reason.raw):
        return None
    argument = Argument(window)
    argument.fact(reason, "it takes connections and says nothing")
    argument.says(f"no page for the last {silent_seconds:.0f} s, and pages before")
    running = window.find(Signal.RUNNING)
    is_at_work = running is not None and running.last.value > 0
    argument.series(running)
    probe = told(window, r"^probe one token$")
    is_probe_lost = probe is not None and _TIMED_OUT.search(probe.raw) is not None
    argument.fact(probe)
    argument.against("telemetry.stale: nothing at all is answered")
    argument.against("a process that is gone: its port would refuse connections")
    argument.need("the end of its log", "its stacks, before a restart takes them away")
    if probe is None:
        argument.need("a one-token probe (--probe)")
    is_likely = is_at_work or is_probe_lost
    return argument.verdict(
        Confidence.LIKELY if is_likely else Confidence.POSSIBLE, detail="it fell silent"
    )


def _judge_missing(window: Window) -> Verdict | None:
    """LIKELY where it lists its models and shows no metrics: it runs, and nobody sees how."""
    pages = _pages(window)
    if pages is None or not pages.is_engine:
        return None
    argument = Argument(window)
    argument.fact(pages.models, "an engine, or a router before engines, is there and answers")
    argument.fact(pages.health)
    argument.fact(pages.metrics, "no metrics")
    argument.against("engine.hung: it answers what it is asked beside its metrics")
    argument.need("its metrics page", "its log", "a one-token probe")
    is_locked = re.match(r"40[13]\b", pages.metrics.raw) is not None
    return argument.verdict(
        Confidence.LIKELY,
        detail="the metrics page is not answered"
        if not _STATUS.match(pages.metrics.raw)
        else f"the metrics page answers {pages.metrics.raw.split(',')[0]}",
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
