"""What runs, what waits, what moves: what most rules ask first, derived once.

Everything may be missing, and missing is None, never zero.
"""

from dataclasses import dataclass

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.views.counted_at_end import is_told_by_ends
from controlplane.diagnosis.views.course import course_of, from_on, late, mostly_of_late, rate_of
from controlplane.diagnosis.views.told import number_of, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.limits import BLOCK_SIZE
from controlplane.diagnosis.words.speeds import TOKENS_A_SECOND
from dataplane.engine_metrics.signal import Signal

FULL = 0.9
"""Of the KV cache: an engine keeps a few percent back (watermarks of 1 to 5 %), and a batch of
long contexts is full before the last block is."""
ROOM = 0.7
"""Below it a third of the cache is free: whoever waits does not wait for blocks."""

_IN_FLIGHT = (
    r"^((user|client|gateway|router) )?(requests )?in ?flight|\bin ?flight (requests|streams)"
    r"|requests in ?flight|outstanding|active streams|^open to\b"
    r"|^(?=.*\b(in ?flight|open|ongoing|connected)\b)((requests?|streams?|connections?|calls?"
    r"|gateway|proxy|router|ingress|clients?|users?|in ?flight|in|open|ongoing|active|total"
    r"|now|current|still|all|sum|http|tcp|sse|websockets?|sockets?|live"
    r"|connected)( |$))+$"
)
_RUNNING = (
    r"^((server|engine|vllm|sglang|prom(etheus)?|metrics?) )?(num )?(requests |reqs )?running"
    r"( (requests|reqs|seqs))?$"
    r"|^running\b|^active requests|^(busy |active )slots$|^slots (busy|processing|active)"
    r"|^(requests )?processing$"
)
_WAITING = (
    r"^((server|engine|vllm|sglang) )?(num )?(requests |reqs )?"
    r"(waiting|queued|pending|deferred)( (requests|reqs|seqs))?$"
    r"|(engine|worker|backend|scheduler|server) (queue|queued|waiting)( reqs| requests)?$"
    r"|^backlog$|queue (depth|length|len|size)$|^(engine )?queue( reqs| requests)?$|^waiting\b"
)
_QUEUED = (
    r"(held|queued|waiting|parked|pending)( \w+)? (gateway|router|proxy|ingress)$|(gateway|router"
    r"|proxy|ingress) (queue|queued|waiting|pending)( depth| len(gth)?)?$"
)
_KV = (
    r"^(kv|kv cache|cache) (percent|pct|usage|full)$|(kv|cache|token|block)s? (cache )?(usage"
    r"|used share|utili[sz]ation|util|fill)"
)
_SEATS = (
    r"max (num )?(seqs|running|active|concurrent (requests|seqs)|batch size)"
    r"|^(num |total )?(slots|seats)$|^n ?(slots|parallel)$|^parallel( slots)?$|max running requests"
    r"|^seat limit|max batch size$"
)
_CAPACITY = (
    r"(kv|cache)( cache)? (pool )?(size |capacity |total )?(in )?tokens|pool (size )?tokens"
    r"|max total (num )?tokens|(kv|cache) (pool|capacity)( tokens)?$|tokens in (kv )?pool"
    r"|pool can (serve|hold|take)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Of one window."""

    window: Window
    running: Series | None
    waiting: Series | None
    """In the engine's own queue."""
    queued: Series | None
    """In the queue of a gateway before it."""
    kv: Series | None
    """Of the cache, 0 to 1."""
    in_flight: Series | None
    """Known beside the engine."""
    decode: Series | None
    """Tokens a second. None also where they are counted when a request ends, and too few ended."""
    prefill: Series | None
    """Tokens a second."""
    preemptions: Series | None
    finished: Series | None

    @property
    def backlog(self) -> Series | None:
        """What waits before the engine starts on it, wherever more does."""
        known = [series for series in (self.waiting, self.queued) if series is not None]
        return max(known, key=lambda series: series.last.value) if known else None

    @property
    def seats(self) -> float | None:
        """How many may run at once by configuration."""
        series = self.window.find(Signal.SEATS)
        if series is not None:
            return series.last.value
        told = number_of(told_number(self.window, _SEATS, without=_NOT_SEATS))
        if told is not None:
            return told
        return self._of_events("max_num_seqs", "max_running_requests", "n_slots")

    @property
    def capacity(self) -> float | None:
        """Of the KV cache, in tokens."""
        series = self.window.find(Signal.KV_CAPACITY)
        if series is not None:
            return series.last.value
        blocks, sizes = self.window.find(Signal.KV_BLOCKS), self._block_sizes
        if blocks is not None and sizes:
            return blocks.last.value * max(sizes)
        told = number_of(told_number(self.window, _CAPACITY, without=_NOT_CAPACITY))
        if told is not None:
            return told
        sized = [
            event.fields["tokens"]
            for event in self.window.events_of(LogKind.KV_CACHE_SIZED)
            if "tokens" in event.fields
        ]
        if sized:
            return sized[-1]
        found = self._of_events("blocks")
        size_told = number_of(told_number(self.window, BLOCK_SIZE))
        is_vllm = self.window.engine is not None and self.window.engine.name == "vllm"
        size_of_block = size_told or (_VLLM_BLOCK if is_vllm else None)
        return found * size_of_block if found and size_of_block else None

    @property
    def room_of_one(self) -> float | None:
        """The most tokens that one request can have: of several replicas or ranks the largest
        cache, for none takes from two."""
        caches = self.window.all_series(Signal.KV_CAPACITY)
        if caches:
            return max(series.last.value for series in caches)
        blocks, sizes = self.window.all_series(Signal.KV_BLOCKS), self._block_sizes
        if blocks and sizes:
            return max(series.last.value for series in blocks) * max(sizes)
        return self.capacity

    @property
    def _block_sizes(self) -> tuple[float, ...]:
        """In tokens, of each replica and rank: a setting, which nobody adds up."""
        found = self.window.all_series(Signal.KV_BLOCK_SIZE)
        return tuple(series.last.value for series in found)

    @property
    def is_full(self) -> bool | None:
        """The cache, of late; None where its usage is not known."""
        return None if self.kv is None else max(late(self.kv), self.kv.last.value) >= FULL

    @property
    def has_room(self) -> bool | None:
        """In the cache, all the time; None where its usage is not known."""
        return None if self.kv is None else self.kv.max < ROOM

    @property
    def has_all_seats_taken(self) -> bool | None:
        """None where the number of seats, or what runs, is not known."""
        seats = self.seats
        if seats is None or self.running is None:
            return None
        running = self.running
        most = max(late(running), mostly_of_late(running), running.last.value)
        return most >= _NEARLY * seats

    def moves(self, start: float, end: float) -> bool | None:
        """Whether any token came or any request ended from `start` to `end`; None where nothing
        was seen that would show it."""
        seen = [
            increase > 0
            for signal in _COUNTED
            for series in (from_on(self.window.find(signal), start),)
            if series is not None and (increase := series.increase) is not None
        ]
        for signal in _RATES:
            rate = self.window.find(signal)
            part = None if rate is None else rate.between(start, end)
            if part is None or (not any(seen) and _is_same_for_long(part)):
                continue
            if seen and not any(seen) and _is_of_before(part):
                continue
            seen.append(part.max > 0)
        for histogram in self.window.histograms:
            if histogram.signal in _OBSERVED:
                counts = [reading.count for reading in histogram.readings if reading.at >= start]
                if len(counts) > 1:
                    seen.append(counts[-1] > counts[0])
        told = told_number(self.window, TOKENS_A_SECOND, without=_OF_BEFORE)
        if told is not None:
            seen.append((number_of(told) or 0.0) > 0)
        ended = told_number(self.window, _ANSWER_RATE)
        if ended is not None:
            seen.append((number_of(ended) or 0.0) > 0)
        answers = told_number(self.window, _ANSWERS)
        if not seen and answers is not None and number_of(answers) == 0:
            return False
        return any(seen) if seen else None

    @property
    def is_moving(self) -> bool | None:
        """Within the last third of the window. Where tokens are counted at the end, a batch of a
        prompt shows nothing for some seconds."""
        start = self.window.start + (self.window.end - self.window.start) * 2 / 3
        made = self.window.find(Signal.GENERATION_TOKENS)
        if made is not None and is_told_by_ends(made, self.window):
            start = min(start, self.window.end - _BATCH_SECONDS)
        return self.moves(start, self.window.end)

    def _of_events(self, *names: str) -> float | None:
        found = [
            event.fields[name]
            for event in self.window.events
            for name in names
            if name in event.fields
        ]
        return found[-1] if found else None


def _is_same_for_long(rate: Series) -> bool:
    """Above zero and the same to the digit: it may be what was set last, and is no proof of work.
    Zero is proof of none."""
    return rate.is_constant and rate.max > 0 and rate.span_seconds >= _LONG_SECONDS


def _is_of_before(rate: Series) -> bool:
    """Above zero in its first reading alone: a rate is of the time before it was read."""
    return len(rate.readings) > 1 and all(value == 0 for value in rate.values[1:])


def activity_of(window: Window) -> Activity:
    """What goes on in `window`."""
    return window.once(activity_of, lambda: _activity_of(window))


def _activity_of(window: Window) -> Activity:
    return Activity(
        window=window,
        running=course_of(window, Signal.RUNNING, _RUNNING, without=_NOT_NOW),
        waiting=course_of(window, Signal.WAITING, _WAITING, without=_NOT_NOW),
        queued=course_of(window, Signal.GATEWAY_QUEUED, _QUEUED, without=_NOT_NOW),
        kv=course_of(window, Signal.KV_USAGE, _KV, without=_NOT_NOW),
        in_flight=course_of(window, Signal.GATEWAY_IN_FLIGHT, _IN_FLIGHT, without=_NOT_NOW),
        decode=_decode(window),
        prefill=_prefill(window),
        preemptions=window.find(Signal.PREEMPTIONS),
        finished=window.find(Signal.FINISHED),
    )


def _decode(window: Window) -> Series | None:
    told, counter = window.find(Signal.GENERATION_RATE), window.find(Signal.GENERATION_TOKENS)
    counted = rate_of(counter, Signal.GENERATION_RATE, window)
    if counter is not None and is_told_by_ends(counter, window):
        return counted
    if told is None or (counted is not None and _tells_as_much(counted, told)):
        return counted if counted is not None else told
    return told


def _prefill(window: Window) -> Series | None:
    told = window.find(Signal.PROMPT_RATE)
    for signal in (Signal.COMPUTED_PROMPT_TOKENS, Signal.PROMPT_TOKENS):
        counter = window.find(signal)
        counted = rate_of(counter, Signal.PROMPT_RATE, window)
        if counter is not None and is_told_by_ends(counter, window):
            return counted
        if counted is not None and (told is None or _tells_as_much(counted, told)):
            return counted
    return told


def _tells_as_much(counted: Series, told: Series) -> bool:
    """A page's own rate may be of the time since anybody read it, and several do: what it counts
    between two readings, one fewer than there are pages, is surer."""
    is_of_a_page = told.origin.kind is SourceKind.METRICS
    return len(counted.readings) + is_of_a_page >= len(told.readings)


_NOT_NOW = (
    r"consumer|subscriber|reader|delivery|send|socket|before|baseline|expected|limit|max|longest"
    r"|wrong"
)
_OF_BEFORE = r"before|baseline|expected|yesterday|usual|normal|last week|ago\b|limit|max"
_NOT_SEATS = r"batched|tokens|model len|client"
_NOT_CAPACITY = r"batched|prompt|cached|free|used|available|evictable|per "
_ANSWER_RATE = r"\b(finished|completed|completions|answered|answers|served)\b.*per (s|min)"
_ANSWERS = r"\b(answers|answered|completions|completed|finished|done)\b.*\b(last|since|in)\b"
_LONG_SECONDS = 60.0
"""A gauge that is the same to the digit for so long beside counters that stand is no proof."""
_BATCH_SECONDS = 10.0
_VLLM_BLOCK = 16.0
"""Tokens, where it was not set; all its releases on CUDA have this default."""
_NEARLY = 0.95
_RATES = (Signal.GENERATION_RATE, Signal.PROMPT_RATE, Signal.BATCH_COMPUTED_TOKENS)
_COUNTED = (
    Signal.GENERATION_TOKENS,
    Signal.COMPUTED_PROMPT_TOKENS,
    Signal.PROMPT_TOKENS,
    Signal.STEPS,
    Signal.FINISHED,
)
_OBSERVED = frozenset({Signal.ITL, Signal.TTFT, Signal.E2E, Signal.STEP_TIME, Signal.STEP_TOKENS})
