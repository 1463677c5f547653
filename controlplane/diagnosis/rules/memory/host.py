"""oom.host_memory: the host's memory, or a container's limit of it."""

import re
from collections.abc import Sequence

from controlplane.diagnosis.citing import cited_series, moved, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.memory.failure import find_failure
from controlplane.diagnosis.rules.memory.killed import (
    is_old,
    killed_by_others,
    of_engines,
    told_kills,
)
from controlplane.diagnosis.rules.memory.ledger import facts_named, known, shortened
from controlplane.diagnosis.rules.memory.on_cpu import cpu_failure
from controlplane.diagnosis.rules.memory.outlived import began_anew, works_on
from controlplane.diagnosis.rules.memory.towards_limit import towards_limit
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import course
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_LINES = (
    r"not enough (host|cpu|system) memory|insufficient (host|cpu|system) memory|"
    r"low on resource: memory|node running low on memory|memory usage threshold of|"
    r"systemd-oomd|due to memory pressure|invoked oom-killer|oom_reaper|"
    r"evict\w*[^\n]*\bmemory\b[^\n]*(threshold|limit|node)|"
    r"(cudaHost\w+|hipHost\w+|pin(ned)?[ _]memory|mlock)[^\n]*(out of memory|cannot|failed)|"
    r"^MemoryError|std::bad_alloc|no space left on device[^\n]*shm|bus error"
)
"""What kernels, node managers and runtimes say, beside what readers of logs know."""
_SIGNAL_9 = re.compile(r"\b(137|-9|sigkill|signal 9)\b", re.IGNORECASE)
_DECIDED = re.compile(
    r"kill|oom_reaper|evict|systemd-oomd|low on resource|running low on memory|"
    r"too large swap space",
    re.IGNORECASE,
)
"""A kernel, a node's manager or the engine itself acted for want of the host's memory."""
_BUS_ERROR = re.compile(r"bus error", re.IGNORECASE)
"""Also of a file that was cut or a disk that failed behind a mapping."""
_LAST_LINES = 20
"""A traceback's end, and what a shell says of it."""
_GOES_ON = (LogKind.READY, LogKind.REQUEST_ENDED, LogKind.GENERATED, LogKind.HTTP_ANSWERED)
_NEEDS = ("the kernel's log or the container's reason", "host memory at the end")
_NEAR_LIMIT = 0.95
"""Of a limit: the kernel kills at the limit, and the last reading is from before."""
_STATE = r"prompt_save|cache state:|saving prompt|prompt cache.*limit|swap space|offload.*(GiB|MiB)"
_TOPICS = r"mem|ram|limit|exit|oom|kill|cache|vram|gpu|rss|swap|models|reuse|host|shm|offload"


def _judge(window: Window) -> Verdict | None:
    seen = window.events_of(LogKind.HOST_OUT_OF_MEMORY)
    events = of_engines(window, seen)
    is_named = len(events) == len(seen)
    if not is_named and not events and not works_on(window, seen[-1].at):
        events = seen
    lines = () if seen else window.lines_with(_LINES)
    told = _told(window)
    said = (*(event.line for event in events), *lines, *(says(fact) for fact in told))
    if not said:
        return _killed(window)
    if cpu_failure(window) is not None and not any(_DECIDED.search(text) for text in said):
        return None  # there it is the device's, and the stage decides
    over = (
        *_over(window, events, told),
        *(() if is_named or not events else ("by its name what was killed is no engine's",)),
    )
    stands = () if events or lines else _page_stands(window, told)
    again = towards_limit(window) if told and not is_old(told) else ()
    if again:
        over, stands = (), ()
    confidence = Confidence.POSSIBLE if over else _sure(window, said)
    if stands:
        confidence = min(confidence, Confidence.LIKELY)
    return Verdict(
        confidence=confidence,
        evidence=(
            *(shortened(event.line) for event in events[:4]),
            *(shortened(line) for line in lines[:3]),
            *(says(fact) for fact in told),
            *again,
            *_context(window),
        ),
        against=(*over, *stands, *_against(window)),
        needs=() if confidence is Confidence.CERTAIN else _NEEDS,
        detail="host",
    )


def _told(window: Window) -> list[Fact]:
    """Kills that somebody tells of, and what kernels and runtimes said in somebody's words."""
    kills = [*told_kills(window)]
    quoted = [
        fact
        for fact in window.facts
        if fact.value is None and re.search(_LINES, fact.raw, re.IGNORECASE) and fact not in kills
    ]
    return kills + quoted


def _over(window: Window, events: Sequence[LogEvent], told: Sequence[Fact]) -> tuple[str, ...]:
    """Why it is no matter of now: what was told is of days ago, or work went on beyond it."""
    if not events and is_old(told):
        return (f"it is of days ago: {', '.join(says(fact) for fact in told)}",)
    moments = [event.at for event in events] + [fact.at for fact in told]
    last = max((moment for moment in moments if moment is not None), default=None)
    worked = works_on(window, last)
    return (worked,) if worked else ()


def _page_stands(window: Window, told: Sequence[Fact]) -> tuple[str, ...]:
    """A kill that somebody tells of, while the page of the process that would have been killed is
    read and no counter on it begins anew."""
    last = max((fact.at for fact in told), default=None)
    if began_anew(window, last) is not False:
        return ()
    return ("no counter of the page began anew: the process that was killed may be another",)


def _sure(window: Window, said: Sequence[str]) -> Confidence:
    """CERTAIN where somebody ended a process for the host's memory, or refused to begin for want of
    it. An allocation that failed in a process says as much only where that process ended."""
    if any(_DECIDED.search(text) for text in said):
        return Confidence.CERTAIN
    if all(_BUS_ERROR.search(text) for text in said):
        return Confidence.POSSIBLE
    return Confidence.LIKELY if _has_ended(window, said) else Confidence.POSSIBLE


def _has_ended(window: Window, said: Sequence[str]) -> bool:
    """The log says so, or breaks off there; where there is no log, nobody says that it goes on."""
    places = [index for index, line in enumerate(window.lines) if line in said]
    if not places:
        return True
    last = places[-1]
    after = [event.kind for event in window.events if event.index > last]
    if LogKind.DIED in after or LogKind.FAILED_TO_START in after:
        return True
    rest = window.lines[last + 1 :]
    return len(rest) <= _LAST_LINES and not any(kind in _GOES_ON for kind in after)


def _killed(window: Window) -> Verdict | None:
    """Ended by signal 9, by whomever."""
    exits = [
        fact
        for fact in facts_named(
            window, r"exit|code|signal|status|reason|died|ended|terminat|killed"
        )
        if _SIGNAL_9.search(fact.raw)
    ]
    lines = window.lines_with(r"(exit|exited|code|status)\D{0,12}\b(137|-9)\b|SIGKILL|signal 9\b")
    if not exits and not lines:
        return None
    near = _near_limit(window)
    otherwise = (*_over(window, (), exits), *killed_by_others(window))
    return Verdict(
        confidence=Confidence.LIKELY if near and not otherwise else Confidence.POSSIBLE,
        evidence=(
            *(says(fact) for fact in exits),
            *(shortened(line) for line in lines[:2]),
            *near,
            *_context(window),
        ),
        against=(
            "a probe or a person that ends a process leaves the same code",
            *otherwise,
            *_against(window),
        ),
        needs=_NEEDS,
        detail="host",
    )


def _near_limit(window: Window) -> tuple[str, ...]:
    limit = next(
        (
            fact
            for fact in facts_named(window, r"limit|host.*(mem|ram)|(mem|ram).*total")
            if fact.value is not None and fact.unit is Unit.BYTES
        ),
        None,
    )
    used = _used(window)
    if limit is None or limit.value is None or used is None:
        return ()
    if used.max < _NEAR_LIMIT * limit.value:
        return ()
    return (f"{moved(used)}, and {says(limit)}",)


def _used(window: Window) -> Series | None:
    return course_of(
        window,
        Signal.HOST_MEMORY_USED,
        r"\brss\b|resident|working set|(memory|ram|host memory)( \w+)* (used|in use|usage)",
        without=r"gpu|vram|device|limit|max|total",
    )


def _context(window: Window) -> tuple[str, ...]:
    states = window.lines_with(_STATE)
    peak = window.last_event(LogKind.HOST_MEMORY_PEAK)
    used = _used(window)
    return (
        *(() if peak is None else (shortened(peak.line),)),
        *(f"its last step on the host: {shortened(line)}" for line in states[-2:]),
        *(() if used is None else (course(used),)),
        *known(window, _TOPICS),
    )


def _against(window: Window) -> tuple[str, ...]:
    against = []
    if find_failure(window) is None:
        against.append("not the device: no allocation on it failed")
    against += [
        f"not the device: {says(fact)}"
        for fact in facts_named(window, r"vram|gpu.*mem|device.*mem")
        if "flat" in fact.raw.lower() or "used" in fact.key.lower()
    ]
    series = window.find(Signal.DEVICE_MEMORY_USED)
    if series is not None:
        against.append(f"not the device: {moved(series)} ({cited_series(window, series).unit})")
    return tuple(against)


HOST_MEMORY = Rule(
    id="oom-host-memory",
    mechanism=Mechanism.OOM_HOST_MEMORY,
    judge=_judge,
    needs=("the kernel's log or the container's reason", "host memory of the process"),
    told_apart=(
        "From the failures on the device by who killed it: a kernel or a container runtime, with "
        "no failed allocation on the device; from a probe's kill by the reason beside code 137."
    ),
    remedy=(
        "Cap what the engine keeps on the host (prompt cache, swap, offloaded KV, multimodal "
        "cache) well below the limit, or raise the limit on purpose."
    ),
    hides=(
        "A higher limit gives a growing cache or a leak more days; a restart frees the memory and "
        "with it what held it."
    ),
    explains=frozenset({Mechanism.ENGINE_HUNG}),
)
