"""Short requests wait behind a long prompt that is being worked at, or that waits for room itself.

Chunked prefill gives a step's whole budget to the prompt in front, for as many steps as it has
chunks; what arrives meanwhile waits beside an almost empty cache.
"""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.queue.behind_long import (
    is_late_behind_long,
    waits_for_slot_of_long,
)
from controlplane.diagnosis.rules.queue.head_wants import (
    LEAST_SECONDS,
    LONGER,
    by_reservation,
    by_what_the_head_lacks,
)
from controlplane.diagnosis.rules.queue.head_without_room import by_room
from controlplane.diagnosis.rules.queue.one_piece import LENGTHS, behind_one_piece
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import early, is_sustained, late, stretch_while
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.filling import is_filled_by_prefill
from controlplane.diagnosis.views.long_prefill import slow_steps
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.prompts import longest_prompt, other_prompts, prompts_by_histogram
from controlplane.diagnosis.views.told import number_of, told_number
from controlplane.diagnosis.views.trend import falls, rises
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LONG_TOKENS = 8_000
"""A prompt that takes a second or more on anything that serves models of interest."""
_MANY_STEPS = 8
"""Chunks: shorter ones pass within a second."""
_STEADY = 0.25
"""A single prompt that is worked at in chunks keeps the prefill rate within so much of its mean."""
_SLOWED = 0.35
"""Of the decode rate before: what remains beside full chunks."""
_CHUNK_LINE = r"prefill batch.*#new-seq:\s*1\b.*#new-token:\s*(\d+).*#queue-req:\s*([1-9]\d*)"
"""SGLang tells each chunk; one sequence in several of the same size is one long prompt."""


def judge(window: Window) -> Verdict | None:
    """CERTAIN where the long prompt and the short ones are known, with room in the cache."""
    now = activity_of(window)
    told = _by_single_requests(now) or by_room(now)
    if told is not None:
        return told
    waiting = _waits_beside_room(now)
    if waiting is None:
        return None
    if _is_idle(now):
        return _by_work(now, waiting, is_idle=True)
    wants = by_reservation(now) or by_what_the_head_lacks(now)
    return _by_work(now, waiting, is_idle=False) if wants is None else wants


def _waits_beside_room(now: Activity) -> Series | None:
    """The stretch in which requests wait; None where the cache is what they wait for, or where
    nothing tells."""
    waiting = stretch_while(now.backlog, lambda value: value > 0)
    if waiting is None or now.is_full:
        return None
    if now.running is None and now.kv is None and now.prefill is None:
        return None
    thrown = preempting(now)
    return None if thrown is not None and thrown.is_costly else waiting


def _by_work(now: Activity, waiting: Series, *, is_idle: bool) -> Verdict | None:
    """By how long the first in line is, and by what the engine works at meanwhile."""
    argument = Argument(now.window)
    argument.series(now.backlog, "they pile up" if waiting.change > 0 else "they wait")
    argument.series(now.kv, "there is room")
    argument.series(now.running)
    is_long = _names_long_prompt(argument, now)
    is_worked_at = _is_worked_at(argument, now)
    waits_for_room = _waits_for_room(argument, now)
    hidden = None if is_worked_at else behind_one_piece(argument, now, is_long=is_long)
    if hidden is not None:
        return hidden
    if is_idle or not (is_long or is_worked_at) or _has_its_turn(now):
        return None
    _weigh(argument, now)
    waits_for_room = waits_for_room and other_prompts(now.window) is not None
    if is_long and (is_worked_at or waits_for_room) and not _is_at_its_limit(now):
        sure = now.has_room and is_sustained(waiting, LEAST_SECONDS) and is_worked_at
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)
    argument.need(
        *(() if is_long else (LENGTHS,)),
        *(() if is_worked_at else ("prefill rate and decode rate over time",)),
    )
    if _chunks(now) and now.has_room and now.has_all_seats_taken is False:
        return argument.verdict(Confidence.LIKELY)
    return argument.verdict(Confidence.POSSIBLE)


def _has_its_turn(now: Activity) -> bool:
    """Of prompts of which none is known to be shorter, one after the other is let in: as long as
    reading takes each waits for its turn, and nobody holds the others up."""
    backlog, running = now.backlog, now.running
    if backlog is None or running is None:
        return False
    if other_prompts(now.window) is not None or prompts_by_histogram(now.window) is not None:
        return False
    return falls(backlog.values) and rises(running.values)


def _is_idle(now: Activity) -> bool:
    """Nothing runs and nothing is read: a batch that only prefills runs nobody either."""
    if now.running is None or now.running.last.value > 0:
        return False
    batches = now.window.find(Signal.BATCH_COMPUTED_TOKENS)
    reads = is_filled_by_prefill(now) or (batches is not None and batches.last.value > 0)
    return not reads and (now.prefill is None or now.prefill.last.value <= 0)


def _by_single_requests(now: Activity) -> Verdict | None:
    """A log or a caller tells of the long one and of those that wait for it."""
    thrown = preempting(now)
    if now.is_full or (thrown is not None and thrown.is_costly):
        return None
    argument = Argument(now.window)
    by_slots = waits_for_slot_of_long(argument, now.window)
    by_waits = is_late_behind_long(argument, now.window)
    has_queue = now.backlog is not None and now.backlog.max > 0
    has_queue = has_queue or (number_of(told_number(now.window, _BEHIND_IT)) or 0.0) > 0
    if not by_slots and not (by_waits and has_queue):
        return None
    argument.series(now.backlog)
    argument.series(now.running)
    argument.series(now.kv, "there is room")
    _weigh(argument, now)
    return argument.verdict(Confidence.CERTAIN if by_slots and by_waits else Confidence.LIKELY)


_BEHIND_IT = r"\b(queued|waiting|waits?|held|stuck)\b.*\b(behind|short|others?)\b|\bbehind it\b"


def _names_long_prompt(argument: Argument, now: Activity) -> bool:
    """One is long, by what was told, and the others are not."""
    window = now.window
    longest, others = longest_prompt(window), other_prompts(window)
    budget = told_number(
        window, r"max (num )?batched tokens|chunk(ed)? (prefill )?size|prefill chunk|n ?u?batch$"
    )
    chunk = number_of(budget)
    if longest is None:
        return _by_histogram(argument, now)
    steps = longest.value / chunk if chunk else None
    is_long = longest.value >= _LONG_TOKENS or (steps is not None and steps >= _MANY_STEPS)
    if others is not None and longest.value < LONGER * others.value:
        return False
    if not is_long:
        return False
    _cite_long(argument, longest, steps, budget.raw if budget is not None else "")
    if others is not None:
        argument.says(f"the others are short ({others.says})")
    return True


def _cite_long(argument: Argument, longest: Figure, steps: float | None, chunk: str) -> None:
    why = "a long prompt"
    if steps is not None and steps > 1:
        why = f"a long prompt, about {number(round(steps))} steps of {chunk} tokens"
    if longest.fact is not None:
        argument.fact(longest.fact, why)
    else:
        argument.says(f"{longest.says}: {why}")


def _by_histogram(argument: Argument, now: Activity) -> bool:
    lengths = prompts_by_histogram(now.window)
    if lengths is None or lengths[1] < _LONG_TOKENS or lengths[1] < LONGER * lengths[0]:
        return False
    argument.says(
        f"prompt lengths: median {number(round(lengths[0]))}, 99th percentile "
        f"{number(round(lengths[1]))} tokens"
    )
    return True


def _is_steady(pace: Series) -> bool:
    mean = pace.mean
    return max(abs(value - mean) for value in pace.values) <= _STEADY * mean


def _is_worked_at(argument: Argument, now: Activity) -> bool:
    """Prefill goes on at one pace while little is decoded."""
    chunks = _chunks(now)
    if chunks:
        argument.says(chunks)
        return True
    if is_filled_by_prefill(now):
        argument.series(now.kv, "it fills though hardly a token is written: a prompt is read")
        return True
    steps = slow_steps(now)
    if steps is not None:
        argument.series(steps, "steps as slow as batches of a prompt, and no token is counted")
        return True
    prefill = now.prefill
    if prefill is None:
        return _is_told_to_be_worked_at(argument, now)
    if prefill.last.value <= 0:
        return False
    busy = stretch_while(prefill, lambda value: value > 0)
    is_steady = busy is not None and len(busy.readings) > 1 and _is_steady(busy)
    is_slowed = now.decode is not None and late(now.decode) <= _SLOWED * now.decode.max
    if not is_steady and not is_slowed:
        return False
    argument.series(busy, "prefill at one pace" if is_steady else "prefill goes on")
    argument.series(now.decode, "hardly any decoding beside it" if is_slowed else "")
    return True


def _is_told_to_be_worked_at(argument: Argument, now: Activity) -> bool:
    fact = told_number(now.window, _WORKED_AT)
    argument.fact(fact)
    return fact is not None


_WORKED_AT = (
    r"prefill (in )?(progress|share|done)|prefilling|being prefilled|chunks? done|(prefill"
    r"|prompt).*per s"
)


def _chunks(now: Activity) -> str:
    """Consecutive chunks of one sequence, of the same size, with a queue behind."""
    sizes = [
        int(found[1])
        for line in now.window.lines_with(_CHUNK_LINE)
        if (found := re.search(_CHUNK_LINE, line, re.IGNORECASE)) is not None
    ]
    if len(sizes) < 2:
        return ""
    same = max(sizes.count(size) for size in set(sizes))
    if same < max(2, len(sizes) // 2):
        return ""
    return f"{same} prefill batches of one sequence with {max(sizes, key=sizes.count)} tokens each"


def _waits_for_room(argument: Argument, now: Activity) -> bool:
    """It fits the cache, but not beside what runs."""
    longest, capacity = longest_prompt(now.window), now.room_of_one
    if longest is None or capacity is None or now.kv is None:
        return False
    free = (1 - now.kv.last.value) * capacity
    if not free < longest.value <= capacity:
        return False
    argument.says(
        f"about {number(round(free))} tokens are free, and the prompt in front wants more"
    )
    return True


def _is_at_its_limit(now: Activity) -> bool:
    """Of seats: then it is the batch that is full, whatever is in it."""
    return bool(now.has_all_seats_taken) and (now.seats or 0) > 1


def _weigh(argument: Argument, now: Activity) -> None:
    if now.has_room:
        argument.against("queue.overload: the cache is far from full")
    moved = now.window.find(Signal.GENERATION_TOKENS)
    if now.is_moving or moved is not None:
        argument.against("queue.blocked: tokens are computed")
    if now.decode is not None and early(now.decode) > late(now.decode):
        argument.against("interference.prefill is part of it: what decodes is slowed as well")


HEAD_OF_LINE = Rule(
    id="queue-head-of-line",
    mechanism=Mechanism.QUEUE_HEAD_OF_LINE,
    judge=judge,
    needs=(
        "requests waiting over time",
        "prompt lengths: the longest, and those that wait",
        "prefill rate over time",
        "KV cache usage",
    ),
    told_apart="From overload by a cache and a batch with room, from a blocked scheduler by "
    "prefill that goes on, from interference by requests that wait for their first token and not "
    "between tokens.",
    remedy="Let several prompts be prefilled at once with a limit on long ones, or give long "
    "prompts a class or a replica of their own.",
    hides="A larger chunk ends the long prompt sooner and slows everybody's tokens meanwhile.",
    explains=frozenset({Mechanism.QUEUE_OVERLOAD, Mechanism.INTERFERENCE_PREFILL}),
)
