"""Requests wait, there is room, and the scheduler admits none."""

import re
from dataclasses import replace

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.queue.context_limit import max_model_len
from controlplane.diagnosis.rules.queue.held_back import FEW, LEAST_SECONDS, crawling, held_back
from controlplane.diagnosis.rules.queue.one_piece import may_hide_a_prompt
from controlplane.diagnosis.rules.queue.parked import parked
from controlplane.diagnosis.rules.queue.past_stall import past_stall
from controlplane.diagnosis.rules.queue.stuck import Stuck, stuck_of
from controlplane.diagnosis.stretch import stretch_of
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import from_on, is_sustained
from controlplane.diagnosis.views.filling import is_filled_by_prefill
from controlplane.diagnosis.views.no_token import cite_no_token
from controlplane.diagnosis.views.places import each_place, with_places
from controlplane.diagnosis.views.prompts import longest_prompt
from controlplane.diagnosis.views.told import says_no, told, told_number
from controlplane.diagnosis.views.truth import is_probe
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.progress import STUCK
from dataplane.engine_metrics.signal import Signal

_HERE = 0.5
"""Of what one place says waits there: counts that are read a moment apart differ by less."""
_NO_BLOCKS = r"\b(deferred|grammars?|fsm|remote[ _-]kvs?|kv transfer|connector|adapters?|lora)\b"
"""What requests wait for that takes no block."""
_SHORT = 2_000
"""Tokens that every cache of any use holds."""


def judge(window: Window) -> Verdict | None:
    """CERTAIN with nothing running, room, no progress, and requests that are known to be there; of
    one replica or rank if there are several, LIKELY at most."""
    now = activity_of(window)
    whole = _judge(now) or held_back(now) or _was_stuck(now)
    if now.in_flight is not None and now.in_flight.last.value <= 0:
        return whole
    return with_places(whole, each_place(window), lambda part: _judge_place(part, now))


def _was_stuck(now: Activity) -> Verdict | None:
    """It stood before, and went on by itself or when something else came: judged as of then."""
    stall = past_stall(now)
    if stall is None:
        return None
    end, goes_on = stall
    verdict = _judge(activity_of(stretch_of(now.window, now.window.start, end)))
    if verdict is None or verdict.confidence < Confidence.LIKELY:
        return None
    evidence = (*verdict.evidence, goes_on)
    return replace(verdict, evidence=evidence, detail="it stood, and went on later")


def _judge_place(part: Window, whole: Activity) -> Verdict | None:
    """One place. The gateway's count and the probe are of all: the count speaks for this one only
    where what the others run and hold does not make it up."""
    facts = tuple(fact for fact in part.facts if not is_probe(fact))
    now = activity_of(replace(part, facts=facts))
    verdict = _judge(replace(now, in_flight=_in_flight_here(now, whole)))
    if verdict is None or verdict.confidence < Confidence.CERTAIN:
        return verdict
    return replace(verdict, confidence=Confidence.LIKELY)


def _in_flight_here(now: Activity, whole: Activity) -> Series | None:
    inside, waiting = whole.in_flight, now.waiting
    if inside is None or waiting is None or whole.running is None or whole.waiting is None:
        return None
    others = whole.running.last.value + whole.waiting.last.value - waiting.last.value
    return inside if inside.last.value > others + _HERE * waiting.last.value else None


def _judge(now: Activity) -> Verdict | None:
    window, stuck = now.window, stuck_of(now)
    if stuck is None:
        return crawling(now)
    if stuck.denial is not None or _is_asleep(now) or _fills(now, stuck):
        return None
    if stuck.moves:
        return _passed_over(now, stuck)
    argument = Argument(window)
    _cite(argument, now, stuck)
    _weigh_never_fits(argument, now)
    is_hidden = _may_read_a_prompt(argument, now, stuck)
    asked = _ask(argument, now, stuck) or _is_paused(argument, now)
    fits = _head_fits(now)
    if asked or is_hidden or fits is False:
        return argument.verdict(Confidence.POSSIBLE)
    if fits is None and not _others_ran(now, stuck):
        argument.against("queue.never_fits: the head may be longer than the cache; that is open")
        return argument.verdict(Confidence.POSSIBLE)
    was_read_twice = len(stuck.running.readings) > 1
    sure = fits is True and now.in_flight is not None and was_read_twice
    return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)


def _passed_over(now: Activity, stuck: Stuck) -> Verdict | None:
    """Others come and are served, and the same ones, all of them put off by the scheduler, wait all
    the time."""
    deferred = now.window.find(Signal.WAITING_BY_REASON, reason="deferred")
    if deferred is None or deferred.min < stuck.waiting.last.value or not stuck.waiting.is_constant:
        return None
    if not is_sustained(stuck.waiting, 2 * LEAST_SECONDS):
        return None
    if now.kv is None or now.kv.max >= FEW:
        return None
    argument = Argument(now.window)
    _cite(argument, now, stuck)
    argument.fact(told_number(now.window, STUCK))
    argument.against("others that come are served, so the scheduler itself is alive")
    argument.need("what the waiting requests have in common")
    return argument.verdict(Confidence.LIKELY, detail="some are passed over")


def _head_fits(now: Activity) -> bool | None:
    """Whether what waits can fit; None where its length or the cache's size is unknown."""
    capacity = now.room_of_one
    longest, limit = longest_prompt(now.window), max_model_len(now.window)
    if (longest is not None and longest.value <= _SHORT) or _waits_for_no_blocks(now):
        return True
    if capacity is None:
        return None
    if longest is not None:
        return longest.value <= capacity
    return True if limit is not None and limit <= capacity else None


def _waits_for_no_blocks(now: Activity) -> bool:
    """The engine counts apart what waits for capacity, and that is none: all were put off; or
    somebody looked what they wait for."""
    reason = told(now.window, r"\bwait\w*( \w+)* (reason|for|on)\b|\breasons?\b.*\bwait")
    if reason is not None and re.search(_NO_BLOCKS, reason.raw, re.IGNORECASE):
        return True
    for_blocks = now.window.find(Signal.WAITING_BY_REASON, reason="capacity")
    put_off = now.window.find(Signal.WAITING_BY_REASON, reason="deferred")
    if for_blocks is None or put_off is None or now.waiting is None:
        return False
    return for_blocks.max == 0 and put_off.last.value >= now.waiting.last.value > 0


def _others_ran(now: Activity, stuck: Stuck) -> bool:
    """Requests that were let in before wait now: put aside, retracted, between the phases, or
    answered after a restart."""
    signals = (Signal.DEFERRED, Signal.SWAPPED, Signal.DECODE_QUEUE, Signal.PAUSED)
    aside = any(
        series.last.value > 0
        for signal in signals
        if (series := now.window.find(signal)) is not None
    )
    return aside or parked(Argument(now.window), now) or stuck.waiting.signal is Signal.DECODE_QUEUE


def _may_read_a_prompt(argument: Argument, now: Activity, stuck: Stuck) -> bool:
    """No prompt is, where what waits was computed before, or put off by the scheduler itself."""
    if _others_ran(now, stuck) or _waits_for_no_blocks(now):
        return False
    return may_hide_a_prompt(argument, now, stuck.seconds)


def _fills(now: Activity, stuck: Stuck) -> bool:
    """The cache fills though nothing runs: a prompt is read that does not count as running yet."""
    start = max(stuck.running.first.at, stuck.waiting.first.at)
    return is_filled_by_prefill(replace(now, kv=from_on(now.kv, start)))


def _is_asleep(now: Activity) -> bool:
    asleep = now.window.find(Signal.SLEEPING)
    return asleep is not None and asleep.last.value > 0


def _is_paused(argument: Argument, now: Activity) -> bool:
    """Somebody told it to admit none: for new weights, a drain, a maintenance."""
    fact = told(
        now.window, r"\bpaus(e|ed|es)\b|\bdrain(s|ed|ing)?\b|maintenance|weight (update|sync)"
    )
    if fact is None or says_no(fact):
        return False
    argument.against(f"{says(fact)}: it may have been told to admit none")
    argument.need("whether the engine is paused, and by whom")
    return True


def _cite(argument: Argument, now: Activity, stuck: Stuck) -> None:
    argument.series(stuck.running, "nothing runs")
    argument.series(stuck.waiting, "requests wait")
    for part in now.window.all_series(Signal.WAITING_BY_REASON):
        reason = part.labels.get("reason", "")
        argument.says(f"{part.origin.name} {reason} {part.last.raw}")
    argument.series(now.kv, "there is room")
    for signal in (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS, Signal.FINISHED):
        series = now.window.find(signal)
        same = series is None or series.is_constant
        argument.series(series, "unchanged" if same else "next to nothing in all that time")
    if now.window.find(Signal.GENERATION_TOKENS) is None:
        cite_no_token(argument, now.decode)
    if stuck.truth is not None:
        argument.says(f"{stuck.truth.says}: the requests are really there")
    argument.against("queue.overload: what is overloaded still makes progress")
    argument.against("engine.hung: nothing runs that could hang in a step")


def _weigh_never_fits(argument: Argument, now: Activity) -> None:
    longest, capacity = longest_prompt(now.window), now.room_of_one
    if longest is not None and capacity is not None and longest.value <= capacity:
        argument.against(
            f"queue.never_fits: {longest.says} is below the KV cache of {capacity:.0f} tokens"
        )


def _ask(argument: Argument, now: Activity, stuck: Stuck) -> bool:
    """Whether something has to be known first."""
    asked = False
    if not stuck.is_lasting:
        argument.need("the same figures half a minute later")
        asked = True
    if stuck.truth is None:
        argument.need("requests in flight at the gateway", "a one-token probe")
        asked = True
    if stuck.moves is None:
        argument.need("generated tokens over time")
        asked = True
    if now.kv is None:
        argument.need("KV cache usage")
        asked = True
    elif now.kv.last.value >= FEW and not (_has_room_for_all(now) or parked(argument, now)):
        argument.against(f"the cache is not free ({now.kv.last.raw}), and nobody runs")
        argument.need("who holds the blocks of the KV cache")
        asked = True
    argument.series(now.window.find(Signal.SWAPPED), "moved out, and not brought back")
    longest, capacity = longest_prompt(now.window), now.room_of_one
    if longest is None or capacity is None:
        argument.need("the prompt at the head of the queue against the KV cache's tokens")
    return asked


def _has_room_for_all(now: Activity) -> bool:
    """The longest prompt of all would fit into what is free, whoever holds the rest."""
    longest, capacity = longest_prompt(now.window), now.room_of_one
    if longest is None or capacity is None or now.kv is None:
        return False
    return longest.value <= (1 - now.kv.last.value) * capacity


BLOCKED = Rule(
    id="queue-blocked",
    mechanism=Mechanism.QUEUE_BLOCKED,
    judge=judge,
    needs=(
        "requests running and waiting over time",
        "KV cache usage",
        "generated tokens over time",
        "requests in flight at the gateway or a one-token probe",
    ),
    told_apart="From frozen gauges by the gateway's own count or a probe, from a request that "
    "never fits by its length against the cache, from a hung engine by nothing running, from "
    "overload by no progress, from one long prompt in one piece by lengths, by nobody in flight "
    "beside those that wait, or by minutes.",
    remedy="Fence the replica, keep its logs and stacks, restart it; watch for no progress while "
    "requests wait.",
    hides="A restart drops the queue and the scheduler's state, the only evidence of "
    "why it admitted nothing.",
    explains=frozenset({Mechanism.QUEUE_OVERLOAD, Mechanism.ROUTING_SKEW}),
)
