"""How long an engine's start took, stage by stage, from its log and from what was told of it."""

import re
from bisect import bisect_left
from dataclasses import dataclass

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.clock import told_span
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.place import place_of
from controlplane.diagnosis.views.told import plain, says_yes, told, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_USUAL_SECONDS = {
    "pulling the image": 120.0,
    "fetching weights": 120.0,
    "loading weights": 120.0,
    "checking peers": 20.0,
    "compiling": 90.0,
    "profiling and warm-up": 90.0,
    "capturing graphs": 60.0,
    "placing": 120.0,
    "other": 60.0,
}
"""What a well kept start of a large model takes at most: weights at 1 GiB/s from a local disk, a
cold compilation, a profile of one step, some dozens of graphs."""
_WORDS: tuple[tuple[str, str], ...] = (
    ("pulling the image", r"image|pull\b"),
    ("fetching weights", r"download|fetch|copy|s3|hub|stag(e|ing) weights"),
    ("checking peers", r"\bp2p\b|peer access"),
    ("capturing graphs", r"graph|captur"),
    ("compiling", r"compil|inductor|triton|jit|autotun|deepgemm|kernel|flashinfer"),
    ("loading weights", r"load|weights?|checkpoint|shards?|safetensors|read"),
    ("profiling and warm-up", r"profil|warm ?up|kv (cache )?(alloc|init)|init engine|engine init"),
    ("placing", r"schedul\w* (pod|node)|provision|placement|pending pod|node (up|ready)|gpu alloc"),
    ("other", r"nccl|tokenizer|import|python|boot|init|distributed"),
)
"""The first that fits a key."""
_WHOLE = (
    r"(start\w*|boot|launch|cold start|restart|time|init|pod|replica).*(to|until|till|before) "
    r"(be )?(ready|serving|first)"
    r"|^(total )?(startup|start|boot|cold start)( time| total)?( now| today| after)?( s)?$"
    r"|ready (after|in)|time to ready|until ready|startup total|up after"
    r"|^(total|whole) (start|startup|boot)( \w+)*$"
)
_NO_STAGE = (
    r"\b(ttft|itl|tpot|e2e|latency|queue|waits?|waited|waiting|timeouts?|limit|interval|probe|budget"
    r"|usual|expected|before|baseline|normal|last|p50|median|target|slo|objective|deadline"
    r"|per (request|token)|burst|upscale|decision|timed|age|ago|since|transfer|span|window|delay)\b"
)
_ENDED = {
    LogKind.WEIGHTS_LOADING: "fetching weights",
    LogKind.WEIGHTS_LOADED: "loading weights",
    LogKind.IMAGE_PULLED: "pulling the image",
    LogKind.PEERS_CHECKED: "checking peers",
    LogKind.COMPILED: "compiling",
    LogKind.KV_CACHE_SIZED: "profiling and warm-up",
    LogKind.GRAPH_CAPTURE_FINISHED: "capturing graphs",
    LogKind.READY: "profiling and warm-up",
}
"""What had been going on when this was said."""
_SILENT = 2.0
"""By how much the time since the line before has to be above what the line says of itself."""
_STARTED = (LogKind.STARTING, LogKind.WEIGHTS_LOADING)
_POD_BEGAN = r"\b(pod|container|process|engine|server|start\w*|launch\w*|created|begin\w*)\b"
_POD_READY = r"\b(ready|serving|up|healthy|first (token|answer|request))\b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a start."""

    name: str
    seconds: float
    says: str

    @property
    def usual_seconds(self) -> float:
        """What it may take."""
        return _USUAL_SECONDS[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start, as far as it was seen."""

    stages: tuple[Stage, ...]
    total_seconds: float
    total_says: str
    is_up: bool
    """It takes requests."""

    @property
    def longest(self) -> Stage | None:
        """The stage that took most."""
        return max(self.stages, key=lambda stage: stage.seconds, default=None)


def start_of(window: Window) -> Start | None:
    """None where no start was seen or told of."""
    logged, told = _logged(window), _told(window)
    stages = (*logged, *told)
    if not logged and len(told) < _LEAST_TOLD and not _whole(window):
        return None
    total = _total(window, stages)
    if total is None:
        return None
    seconds, sentence = total
    return Start(
        stages=stages,
        total_seconds=seconds,
        total_says=sentence,
        is_up=_is_up(window),
    )


def _logged(window: Window) -> list[Stage]:
    """A stage takes what its line says; what says nothing took the time since the line before."""
    found: dict[str, Stage] = {}
    for event in window.events:
        stage = _stage_of(window, event) or _under_way(event)
        if stage is not None and (
            stage.name not in found or found[stage.name].seconds < stage.seconds
        ):
            found[stage.name] = stage
    return list(found.values())


def _under_way(event: LogEvent) -> Stage | None:
    """How long a progress bar has been running."""
    found = re.search(r"\[(?:(\d+):)?(\d+):(\d+)<", event.line)
    name = _RUNNING.get(event.kind)
    if found is None or name is None:
        return None
    hours, minutes, seconds = (int(group or 0) for group in found.groups())
    return _with(name, hours * 3600 + minutes * 60 + seconds, f"{name}: {_line(event)}")


_RUNNING = {
    LogKind.WEIGHTS_LOADING: "loading weights",
    LogKind.GRAPH_CAPTURE_STARTED: "capturing graphs",
}


def _stage_of(window: Window, event: LogEvent) -> Stage | None:
    seconds = event.fields.get("seconds")
    if event.kind is LogKind.INITIALIZED and seconds is not None:
        return _rest(window, event, seconds)
    name = _ENDED.get(event.kind)
    if name is None:
        return None
    gap = _gap(window, event)
    if gap is not None and gap[0] > _SILENT * (seconds or 0.0) and gap[0] > 0:
        sentence = f"{name}: {number(gap[0])} s from {gap[1]} to {_line(event)}"
        return _with(name, gap[0], sentence)
    return None if seconds is None else _with(name, seconds, f"{name}: {_line(event)}")


def _rest(window: Window, event: LogEvent, seconds: float) -> Stage:
    """Of what the engine says its initialization took, all but compiling and graphs."""
    compiled = event.fields.get("compile_seconds")
    if compiled is None:
        ended = window.events_of(LogKind.COMPILED)
        compiled = max((each.fields.get("seconds", 0.0) for each in ended), default=0.0)
    captured = sum(
        graphs.fields.get("seconds", 0.0)
        for graphs in window.events_of(LogKind.GRAPH_CAPTURE_FINISHED)
    )
    rest = max(0.0, seconds - compiled - captured)
    sentence = f"profiling and warm-up: {number(rest)} s of {_line(event)}"
    return _with("profiling and warm-up", rest, sentence)


def _gap(window: Window, event: LogEvent) -> tuple[float, str] | None:
    """Since the line before, and that line; None where one of them has no time."""
    if event.at is None:
        return None
    dated = window.once("indexes and times of events", lambda: _dated(window))
    num_earlier = bisect_left(dated, (event.index,))
    began = dated[num_earlier - 1][1] if num_earlier else window.start
    place = place_of(window, event)
    line = window.lines[place - 1] if place > 0 else ""
    return event.at - began, f"«{' '.join(line.split())[:120]}»" if line else "the first line"


def _dated(window: Window) -> list[tuple[int, float]]:
    """In the order of their lines; a long log has thousands of events."""
    return [(each.index, each.at) for each in window.events if each.at is not None]


def _line(event: LogEvent) -> str:
    return f"«{' '.join(event.line.split())[:160]}»"


def _with(name: str, seconds: float, sentence: str) -> Stage:
    return Stage(name=name, seconds=seconds, says=sentence)


def _told(window: Window) -> list[Stage]:
    stages = []
    for fact in told_all(window, r".", without=_NO_STAGE):
        key = plain(fact.key)
        if fact.unit is not Unit.SECONDS or fact.value is None or re.search(_WHOLE, key):
            continue
        if fact.place and _has_served(window):
            continue
        if re.search(r"\bat( s)?$|\b(started|ended|fired|updates|times)\b", key):
            continue
        name = next((name for name, words in _WORDS if re.search(words, key)), None)
        if name is not None and fact.value > 0:
            stages.append(_with(name, fact.value, says(fact)))
    return [*stages, *_listed(window)]


def _has_served(window: Window) -> bool:
    """By its counters. SGLang's page keeps the times of its start for as long as it lives."""
    return any(
        series.max > 0
        for signal in (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS, Signal.FINISHED)
        for series in window.all_series(signal)
    )


def _listed(window: Window) -> list[Stage]:
    """Several in one text: `image 30 s, weights 60 s, torch.compile 700 s`."""
    for fact in told_all(window, r".", without=_NO_STAGE):
        if fact.value is not None:
            continue
        parts = [
            (
                next((name for name, asked in _WORDS if re.search(asked, plain(words))), None),
                seconds,
            )
            for words, seconds in durations_in(fact.raw)
        ]
        stages = [
            _with(name, seconds, f"{name}: {number(seconds)} s of {says(fact)}")
            for name, seconds in parts
            if name is not None
        ]
        if len(stages) >= _LEAST_LISTED and len(stages) == len(parts):
            return stages
    return []


_LEAST_LISTED = 3
"""Two times in a sentence may be of anything."""


_LEAST_TOLD = 2
"""One time alone may be of anything."""


def _whole(window: Window) -> list[Fact]:
    return [
        fact
        for fact in told_all(window, _WHOLE, without=_NO_STAGE)
        if fact.value is not None and fact.unit is Unit.SECONDS
    ]


def _total(window: Window, stages: tuple[Stage, ...]) -> tuple[float, str] | None:
    """Until it was ready: as it was told, by the times of the log, or the stages together."""
    whole = _whole(window)
    if whole:
        logged = _span(window) or float("inf")
        this = min(whole[::-1], key=lambda fact: abs((fact.value or 0.0) - logged))
        slowest = max(whole[::-1], key=lambda fact: fact.value or 0.0)
        asked = slowest if logged == float("inf") else this
        return asked.value or 0.0, says(asked)
    clocked = told_span(window, _POD_BEGAN, _POD_READY)
    if clocked is not None and clocked[1] is not clocked[2]:
        seconds, pod, up = clocked
        return seconds, f"{number(seconds)} s from {says(pod)} to {says(up)}"
    summed = sum(stage.seconds for stage in stages)
    if not stages:
        return None
    seconds = max(_span(window), summed)
    return seconds, f"{number(seconds)} s from the first line of the start to its last"


def _span(window: Window) -> float:
    """From the first line of the start to its last; 0 where no line has a time."""
    moments = [
        event.at
        for event in window.events_of(
            *_STARTED,
            LogKind.IMAGE_PULLED,
            LogKind.PEERS_CHECKED,
            LogKind.WEIGHTS_LOADED,
            LogKind.COMPILED,
            LogKind.GRAPH_CAPTURE_FINISHED,
            LogKind.INITIALIZED,
            LogKind.READY,
        )
        if event.at is not None
    ]
    begun = window.events_of(*_STARTED)
    first = begun[0].at if begun and begun[0].at is not None else window.start
    return max(moments) - min(first, *moments) if moments else 0.0


def _is_up(window: Window) -> bool:
    """It says so; what was measured without a log is told of a start that is over."""
    if window.events_of(LogKind.READY, LogKind.INITIALIZED):
        return True
    if any(says_yes(fact) for fact in told_all(window, r"^(is )?(serving|ready|up)( now)?$")):
        return True
    if _answers(window):
        return True
    return not window.events_of(*_STARTED, *_ENDED)


def _answers(window: Window) -> bool:
    """What was asked of it last came back, after the last stage that its log tells of."""
    ended = max((each.at for each in window.events if each.at is not None), default=window.start)
    fact = told(window, _ASKED, without=r"timeout|interval|period|path|limit|failures?|budget")
    if fact is None or fact.at < ended:
        return False
    text = fact.raw.lower().strip()
    if re.search(r"\b(refused|timed? ?out|no answer|not|unhealthy|fail\w*|5\d\d|4\d\d)\b", text):
        return False
    is_timed = fact.unit is Unit.SECONDS and bool(fact.value)
    return is_timed or re.search(r"^(200|ok|healthy|ready|yes|true)\b|\banswer", text) is not None


_ASKED = r"\b(health|healthy|readiness|probe|canary)\b|\b(test|first) (prompt|request|completion)\b"
