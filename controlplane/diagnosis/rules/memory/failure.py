"""The moment at which device memory ran out: in which stage, for how much, beside what."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.rules.memory.amount import Amount, amounts_in, as_written
from controlplane.diagnosis.rules.memory.stage import Stage, named_stage, stage_by_order
from controlplane.diagnosis.rules.memory.told_failure import told_failures
from controlplane.diagnosis.views.place import place_of
from controlplane.diagnosis.window import Window

_RUN_OUT = (LogKind.OUT_OF_MEMORY, LogKind.KV_CACHE_TOO_SMALL)
_ANY_WORDS = (
    r"(insufficient|not enough|out of) (gpu|device|video|graphics|hbm) memory|"
    r"failed to allocate [^\n]*\b(gpu|device|cuda|rocm|metal|vulkan|sycl|npu|vram)\b"
)
_OF_THE_HOST = re.compile(r"ray\.exceptions\.OutOfMemoryError|node running low on memory")
"""A manager of nodes calls its kills by the name that a device's allocator has for its failure."""
_MOST_TRACEBACK_LINES = 200
"""Deep enough for any engine's traceback; a runaway log is not searched to its beginning."""
_MOST_LINES_AFTER = 60
_OF_A_FAILURE = (
    *_RUN_OUT,
    LogKind.DIED,
    LogKind.FAILED_TO_START,
    LogKind.ERROR,
    LogKind.WARNING,
)
_SLACK = 0.01
"""Of the device: what an allocator holds unused in any engine that serves."""
_SAID_STAGES = {"decode": Stage.DECODE, "prefill": Stage.PREFILL, "warmup": Stage.WARMUP}
"""Where the words of the failure belong to one stage alone."""
_QUIET_LINE = re.compile(
    r"\b(INFO|WARNING|DEBUG)\b|Decode batch|Prefill batch|Avg prompt throughput|"
    r"print_info|llama_kv_cache.*size =|load_tensors: +offload",
)
"""Ends a failure's lines: an engine that goes on, or what it said before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is known of it. Amounts that nobody wrote down are None."""

    line: str
    index: int
    """Of `line` among the window's lines; -1 where it is a fact's text."""
    at: float | None
    stage: Stage
    stage_line: str
    """Which line says the stage; empty where none does."""
    is_named: bool
    """A traceback or the engine's own words say the stage, and not the order of its lines alone."""
    lines: tuple[str, ...]
    """Those that belong to it."""
    is_refusal: bool
    """The engine calculated that it cannot fit, and asked for nothing."""
    ranks: frozenset[str]
    """That failed."""
    wanted: Amount | None = None
    free: Amount | None = None
    total: Amount | None = None
    allocated: Amount | None = None
    reserved: Amount | None = None
    """Held by the allocator and unallocated."""
    pool: Amount | None = None
    """What the allocator held in all, allocated or not."""
    process: Amount | None = None
    """What the failing process itself holds."""

    @property
    def shortfall(self) -> float | None:
        """Bytes that were missing."""
        if self.wanted is None or self.free is None:
            return None
        return self.wanted.size - self.free.size

    @property
    def fits_in_gaps(self) -> bool:
        """The allocator holds at least what was wanted, unused, and the device has no more."""
        return (
            self.wanted is not None
            and self.reserved is not None
            and self.reserved.size >= self.wanted.size
            and (self.free is None or self.free.size < self.wanted.size)
            and not self._is_usual_slack
        )

    @property
    def _is_usual_slack(self) -> bool:
        """A tensor that grows with each token wants a new place each time, and leaves the old one
        as a gap: where a step says that it failed, so little is its own."""
        return (
            self.stage.is_serving
            and self.is_named
            and self.reserved is not None
            and self.total is not None
            and self.reserved.size < _SLACK * self.total.size
        )


def find_failure(window: Window) -> Failure | None:
    """The first failure that the engine did not get over; None where memory of a
    device did not run out, as far as could be seen."""
    events = tuple(
        event
        for event in window.events_of(*_RUN_OUT)
        if not _OF_THE_HOST.search(event.line) and not _got_over(window, event)
    )
    events = events or _unread(window) or told_failures(window)
    if not events:
        return None
    first = events[0]
    end = _next_start(window, first.index)
    together = tuple(event for event in events if event.index < end)
    return _describe(window, first, together)


def _next_start(window: Window, index: int) -> int:
    """Before which line a failure's words end: there the engine starts again, or they are far."""
    again = (
        event.index
        for event in window.events_of(LogKind.STARTING, LogKind.WEIGHTS_LOADING)
        if event.index > index
    )
    return min(next(again, index + _MOST_LINES_AFTER), index + _MOST_LINES_AFTER)


def _unread(window: Window) -> tuple[LogEvent, ...]:
    """In words that no reader of logs knows."""
    return tuple(
        LogEvent(kind=LogKind.OUT_OF_MEMORY, index=index, line=window.lines[index])
        for index in window.places_with(_ANY_WORDS)
    )[:_MOST_LINES_AFTER]


def _got_over(window: Window, event: LogEvent) -> bool:
    """It came up afterwards without starting again: it had asked for less."""
    before_ready = True
    for later in window.events:
        if later.index < event.index and later.kind is LogKind.READY:
            before_ready = False
        if later.index > event.index and later.kind in (
            LogKind.STARTING,
            LogKind.DIED,
            LogKind.FAILED_TO_START,
        ):
            return False
        if later.index > event.index and later.kind is LogKind.READY:
            return before_ready
    return False


def _describe(window: Window, first: LogEvent, together: tuple[LogEvent, ...]) -> Failure:
    rank = first.words.get("rank")
    frames, after = _lines_around(window, place_of(window, first), place_of(window, together[-1]))
    stage, stage_line, is_named = _stage(window, first, rank, (*frames, first.line, *after))
    measured = next((event for event in together if "wanted_bytes" in event.fields), first)
    texts = (measured.line, *after)
    return Failure(
        line=measured.line,
        index=first.index,
        at=first.at,
        stage=stage,
        stage_line=stage_line,
        is_named=is_named,
        lines=(*reversed(frames), first.line, *after),
        is_refusal=all(event.kind is LogKind.KV_CACHE_TOO_SMALL for event in together),
        ranks=frozenset(
            event.words["rank"]
            for event in window.events_of(*_RUN_OUT, LogKind.DIED)
            if "rank" in event.words and event.index >= first.index - _MOST_TRACEBACK_LINES
        ),
        wanted=_field(measured, ("wanted_bytes", "needed_bytes"), texts),
        free=_field(measured, ("free_bytes", "available_bytes"), texts),
        total=_field(measured, ("total_bytes",), texts),
        allocated=_field(measured, ("allocated_bytes",), texts),
        reserved=_unallocated(measured, texts),
        pool=_field(measured, ("pool_bytes",), texts) if _is_of_all(measured.line) else None,
        process=_field(measured, ("process_bytes",), texts),
    )


def _lines_around(window: Window, first: int, last: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The traceback above, its deepest frame first, and what the engine says of it below."""
    lines = window.lines
    earlier = {event.line for event in window.events if event.kind not in _OF_A_FAILURE}
    frames = []
    for index in range(first - 1, max(0, first - _MOST_TRACEBACK_LINES) - 1, -1):
        if lines[index] in earlier or _QUIET_LINE.search(lines[index]):
            break
        frames.append(lines[index])
    after = list(lines[first + 1 : last + 1])
    for line in lines[last + 1 : last + 1 + _MOST_LINES_AFTER]:
        if _QUIET_LINE.search(line):
            break
        after.append(line)
    return tuple(frames), tuple(after)


def _stage(
    window: Window, event: LogEvent, rank: str | None, around: tuple[str, ...]
) -> tuple[Stage, str, bool]:
    ordered, ordered_line, is_said = stage_by_order(window, event, rank)
    around = (*around, *_told(window))
    if ordered is Stage.UNKNOWN:
        named = named_stage(around, is_serving=False) or named_stage(around, is_serving=True)
        served = next((text for text in _told(window) if _SERVED.search(text)), None)
        if named is None and served is not None:
            return Stage.SERVING, served, False
    else:
        named = named_stage(around, is_serving=ordered.is_serving)
    said = _SAID_STAGES.get(event.words.get("stage", ""))
    if said is not None and (named is None or named[0] is not Stage.PROFILE):
        return said, event.line, True
    if event.kind is LogKind.KV_CACHE_TOO_SMALL:
        return Stage.KV_CACHE, event.line, True
    is_part = is_said and ordered is Stage.CAPTURE and named is not None
    if named is None or _contradicts(named[0], ordered) or (is_part and _is_wider(named[0])):
        return ordered, ordered_line, is_said
    return named[0], named[1], True


_SERVED = re.compile(
    r"\bserving\b|under load|in production|after (hours|days|\d+(\.\d+)? ?(h|hours|days))\b",
    re.IGNORECASE,
)


def _is_wider(named: Stage) -> bool:
    """Some engines call warm-up what holds the capture of graphs as well."""
    return named is Stage.WARMUP


def _contradicts(named: Stage, ordered: Stage) -> bool:
    """What was done before the graphs were finished is not a profile afterwards."""
    return ordered is Stage.WARMUP and named in (Stage.PROFILE, Stage.LOAD)


def _told(window: Window) -> tuple[str, ...]:
    """What somebody wrote of the stage: `failed_during: decode`."""
    asked = {"phase", "during", "stage", "died", "crash", "failed", "error", "exception", "trace"}
    asked |= {"happened", "when", "where", "while", "doing", "step", "traceback", "at"}
    return tuple(
        f"{fact.key} {fact.raw}"
        for fact in window.facts
        if fact.value is None and asked & fact.words
    )


def _field(event: LogEvent, names: tuple[str, ...], texts: Iterable[str]) -> Amount | None:
    for name in names:
        if name in event.fields:
            return as_written(event.fields[name], texts)
    return None


def _unallocated(event: LogEvent, texts: Iterable[str]) -> Amount | None:
    """As newer allocators say it, or what older ones held in total less what they had given out."""
    found = _field(event, ("reserved_bytes",), texts)
    held, given = event.fields.get("pool_bytes"), event.fields.get("allocated_bytes")
    if found is not None or held is None or given is None:
        return found
    if not _is_of_all(event.line) or held < given:
        return None
    return as_written(held - given, ())


def _is_of_all(line: str) -> bool:
    """Older allocators say what they hold in all, newer ones what is in pools of their own."""
    return "reserved in total" in line


def listed_processes(line: str, besides: Collection[str] = ()) -> tuple[Amount, ...]:
    """What the allocator's message says of each process on the device but the one that fails, and
    but those `besides` names by their ids."""
    found = re.findall(r"Process (\d+) has ([\d.,]+ ?[KMGT]?i?B) memory in use", line)
    return tuple(amount for pid, text in found if pid not in besides for amount in amounts_in(text))


def own_pids(window: Window) -> frozenset[str]:
    """Ids of processes that somebody calls the engine's own: ranks, workers, launchers."""
    texts = [
        f"{fact.key} {fact.raw}"
        for fact in window.facts
        if re.search(r"pid|process", fact.key, re.IGNORECASE) and not _OTHERS.search(fact.key)
    ]
    return frozenset(
        pid
        for text in texts
        if _OWN.search(text) and not _OTHERS.search(text)
        for pid in re.findall(r"(?<![\d.])\d{2,7}(?![\d.])", text)
    )


_OWN = re.compile(
    r"\b(own|rank|worker|launcher|engine|scheduler|encoder|executor|core|draft|mps|lmcache"
    r"|[tdpe]p\d?\b)",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"other|foreign|neighbou?r|zombie|leftover|defunct|previous", re.IGNORECASE)
