"""Requests that decode wait between their tokens for the prefill of others."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import FULL, Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import (
    Parts,
    median_of,
    observed_parts,
    rates,
    share_above,
)
from controlplane.diagnosis.views.places import each_by_its_series, with_places
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.prompts import longest_prompt, prompts_by_histogram
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, plain, told, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_COLLAPSED = 0.35
"""Of the decode rate without prefill: chunked prefill beside a full decode batch costs less."""
_SURELY_COLLAPSED = 0.2
_MANY_READINGS = 12
_LEAST_MOMENTS = 3
"""Of many readings: one or two are the first prompts of a batch that begins."""
_HIGH = 0.5
"""Of the highest prefill rate: the readings in which prefill goes on."""
_LOW = 0.2
_LEAST_PREFILL = 100.0
"""Tokens a second: less is no load on anything."""
_TAIL = 8.0
"""Times the median: a token that waits for one chunk of thousands of tokens."""
_TAIL_SECONDS = 0.2
_MUCH_PREFILL = 4.0
"""Times the decoded tokens: then steps are mostly prefill."""
_LONG_PROMPT = 4_000
_SLOWER = 2.5
_LONGER = 1.5
_TAILS = ((4.0, 0.003, 3.0), (2.0, 0.01, 5.0))
"""Times the median before, the share of tokens above that, and how many times as many as before."""
_SLOWER_PACE = 1.15
_PURE = (
    r"(pure|only|floor|ideal|alone)\b.*\b(decode|step)|(decode|step)\b.*\b(floor|alone|only"
    r"|pure)"
)
_STARVED = 1.0
"""Tokens a second for each that runs."""
_MUCH_MORE = 20.0
"""Times the decoded tokens, where steps take turns between prefill and decode."""
_FEW_WAIT = 0.1
"""Of the batch; with more in the queue it is the queue that people feel."""
_WHILE_PREFILL = (
    r"\b(during|with|while|beside|under|mixed|after)\b|prefill|long( |$)|prompt|document|ingest"
)
_OF_PREFILL = r"ttft|prefill (tok|rate|per)|prompt (tok|per)"
_BY_PREFILL = r"prefill|prompt|long|document|ingest"
_ALONE = r"\b(alone|without|no|idle|before|baseline|quiet|normal|usual|unloaded|only|decode only)\b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """Decode rates without and beside prefill."""

    alone: float
    beside: float
    prefill: float
    moments: int
    """Readings in which both were seen."""

    @property
    def share(self) -> float:
        """What is left."""
        return self.beside / self.alone


def judge(window: Window) -> Verdict | None:
    """CERTAIN where decoding collapses in exactly the readings in which prefill goes on; of
    one replica or rank if there are several."""
    return with_places(_judge(window), each_by_its_series(window), _judge_place)


def _judge_place(part: Window) -> Verdict | None:
    """What is only a hint of one place is none. With a handful of requests its rate rises and falls
    as they come and end, each with its own prefill."""
    running = part.find(Signal.RUNNING)
    if running is None or min(running.values) < _LEAST_BATCH:
        return None
    verdict = _judge(part)
    return None if verdict is None or verdict.confidence < Confidence.LIKELY else verdict


_LEAST_BATCH = 8
"""Decoding all the time: one that comes or ends is then little of the rate."""


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    thrown = preempting(now)
    if thrown is not None and thrown.is_costly:
        return None
    argument = Argument(window)
    collapse = _collapse(now)
    if collapse is not None and collapse.share <= _COLLAPSED:
        return _of_collapse(argument, now, collapse)
    if _told(argument, window):
        argument.series(now.waiting)
        argument.series(now.kv)
        _cite_chunk(argument, now)
        _weigh(argument, now)
        return argument.verdict(Confidence.LIKELY)
    if _above_pure_decode(argument, now):
        return argument.verdict(Confidence.LIKELY)
    return _starving(argument, now) or _since_prompts_grew(now) or _of_tail(argument, now)


def _since_prompts_grew(now: Activity) -> Verdict | None:
    """Prompts became longer within the window, and since then some tokens wait for a chunk of
    them."""
    window = now.window
    waits = 0.0 if now.backlog is None else late(now.backlog)
    batch = 1.0 if now.running is None else max(late(now.running), 1.0)
    grown = _prompt_growth(window)
    if grown is None or grown.factor < _LONGER or waits > batch or now.is_full:
        return None
    argument = Argument(window)
    argument.says(
        f"prompt tokens for each answer: {number(round(grown.before))} -> "
        f"{number(round(grown.after))}"
    )
    if not _tail_grew(argument, window) and not _pace_fell(argument, window):
        return None
    argument.series(now.prefill)
    argument.series(now.waiting)
    argument.series(now.kv)
    _weigh(argument, now)
    argument.against("cache.grown_contexts: the cache is not full")
    return argument.verdict(Confidence.LIKELY)


def _prompt_growth(window: Window) -> Parts | None:
    """Tokens that a request's prefill takes, in the first and in the last third."""
    parts = observed_parts(window.find_histogram(Signal.PROMPT_LENGTH), window)
    if parts is not None and parts[0].count > 0 and parts[1].count > 0:
        return Parts(parts[0].sum / parts[0].count, parts[1].sum / parts[1].count)
    for signal in (Signal.COMPUTED_PROMPT_TOKENS, Signal.PROMPT_TOKENS):
        tokens, ended = rates(window.find(signal), window), None
        for counted in (Signal.FINISHED, Signal.GATEWAY_ENDED, Signal.GATEWAY_ARRIVED):
            ended = ended or rates(window.find(counted), window)
        if tokens is not None and ended is not None and ended.before > 0 and ended.after > 0:
            return Parts(tokens.before / ended.before, tokens.after / ended.after)
    return None


def _tail_grew(argument: Argument, window: Window) -> bool:
    for signal in (Signal.ITL, Signal.TPOT, Signal.STEP_TIME):
        parts = observed_parts(window.find_histogram(signal), window)
        middle = None if parts is None else median_of(parts[0])
        if parts is None or middle is None:
            continue
        for times, least, growth in _TAILS:
            bound = times * middle
            before, after = share_above(parts[0], bound), share_above(parts[1], bound)
            if after >= least and after >= growth * max(before, least / growth):
                argument.says(
                    f"{signal.value} above {bound * 1000:.3g} ms: {before * 100:.2g} % -> "
                    f"{after * 100:.2g} %"
                )
                return True
    return False


def _pace_fell(argument: Argument, window: Window) -> bool:
    """Where no histogram tells it: seconds of decoding for each token."""
    spent = rates(window.find(Signal.GENERATION_SECONDS), window)
    made = rates(window.find(Signal.GENERATION_TOKENS), window)
    if spent is None or made is None or made.before <= 0 or made.after <= 0 or spent.before <= 0:
        return False
    before, after = spent.before / made.before, spent.after / made.after
    if after < _SLOWER_PACE * before:
        return False
    argument.says(f"{before * 1000:.3g} -> {after * 1000:.3g} ms a token")
    return True


def _above_pure_decode(argument: Argument, now: Activity) -> bool:
    """A token takes many times a step that decodes alone, most of the work is prefill, and nothing
    waits."""
    window = now.window
    pure = told_number(window, _PURE, without=r"per s|tokens")
    actual = told_number(window, r"\b(itl|tpot|inter token)\b.*", without=_PURE)
    floor, seconds = number_of(pure), number_of(actual)
    if pure is None or actual is None or not floor or not seconds or seconds < _SLOWER * floor:
        return False
    into = told_number(window, r"prompt tokens (each|mean|p50)|input tokens (each|mean|p50)")
    out = told_number(window, r"(output|answer|completion) tokens (each|mean|p50)")
    asked, written = number_of(into), number_of(out)
    is_mostly = bool(asked and written and asked >= 2 * written) or _is_mostly_prefill(
        argument, now
    )
    if not is_mostly or (now.backlog is not None and now.backlog.last.value > 0) or now.is_full:
        return False
    argument.fact(pure)
    argument.fact(actual)
    argument.fact(into)
    argument.fact(out)
    _weigh(argument, now)
    return True


def _starving(argument: Argument, now: Activity) -> Verdict | None:
    """All that runs together gets next to no tokens while prompts go through."""
    decode, running = now.decode, now.running
    prefill = now.prefill or _prefill_of_batches(now)
    if decode is None or running is None or prefill is None or now.kv is None:
        return None
    streams = late(running)
    waits = 0.0 if now.waiting is None else now.waiting.last.value
    if streams < 2 or now.kv.max >= FULL or waits > _FEW_WAIT * streams:
        return None
    if late(decode) > _STARVED * streams or late(prefill) < _MUCH_MORE * max(late(decode), 1.0):
        return None
    if late(decode) <= 0:
        return None
    argument.series(
        decode,
        f"{number(streams)} streams share it, one token in {streams / late(decode):.2g} s each",
    )
    argument.series(prefill, "prompts go through meanwhile")
    argument.series(now.window.find(Signal.PROMPT_RATE))
    argument.series(running)
    argument.series(now.kv)
    argument.series(now.waiting)
    for fact in told_all(now.window, r"prefill|decode|gap|between tokens|\bitl\b|\btpot\b"):
        argument.fact(fact)
    _cite_chunk(argument, now)
    _weigh(argument, now)
    argument.against("delivery.slow_client: the tokens are not made")
    return argument.verdict(Confidence.LIKELY)


def _of_collapse(argument: Argument, now: Activity, collapse: Collapse) -> Verdict:
    argument.series(
        now.decode,
        f"{number(round(collapse.alone, 1))} -> {number(round(collapse.beside, 1))} tokens/s while "
        f"prefill does about {number(round(collapse.prefill))}",
    )
    argument.series(now.prefill)
    argument.series(now.running, "as many run as before")
    argument.series(now.kv)
    argument.series(now.waiting)
    _cite_chunk(argument, now)
    _weigh(argument, now)
    longest = longest_prompt(now.window)
    is_told = longest is not None and longest.value >= _LONG_PROMPT
    is_seen = collapse.moments > 1 or is_told
    sure = collapse.share <= _SURELY_COLLAPSED and is_seen and now.has_room
    return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)


def _collapse(now: Activity) -> Collapse | None:
    """Engines count a prompt when its prefill ends, so that it may show one reading later."""
    decode, prefill = now.decode, now.prefill or _prefill_of_batches(now)
    if decode is None or prefill is None or prefill.max < _LEAST_PREFILL:
        return None
    pairs = []
    for place, reading in enumerate(decode.readings):
        at_once = prefill.at(reading.at)
        if at_once is None:
            continue
        later = decode.readings[place + 1].at if place + 1 < len(decode.readings) else reading.at
        following = prefill.at(later)
        soon = at_once.value if following is None else max(at_once.value, following.value)
        pairs.append((reading.value, at_once.value, soon, _running_at(now, reading.at)))
    alone = [pair for pair in pairs if pair[1] <= _LOW * prefill.max and pair[0] > 0]
    if not alone:
        return None
    best = max(alone, key=lambda pair: pair[0])
    beside = [pair for pair in pairs if pair[2] >= _HIGH * prefill.max and pair is not best]
    least = best[3] or 0.0
    kept = [pair for pair in beside if pair[3] is None or pair[3] >= least]
    slowed = [pair for pair in kept if pair[0] <= _COLLAPSED * best[0]]
    if not slowed or len(slowed) * 2 < len(kept):
        return None
    if len(pairs) >= _MANY_READINGS and len(slowed) < _LEAST_MOMENTS:
        return None
    return Collapse(
        alone=best[0],
        beside=sorted(pair[0] for pair in slowed)[len(slowed) // 2],
        prefill=max(pair[2] for pair in slowed),
        moments=len(slowed),
    )


def _running_at(now: Activity, moment: float) -> float | None:
    reading = None if now.running is None else now.running.at(moment)
    return None if reading is None else reading.value


def _prefill_of_batches(now: Activity) -> Series | None:
    """Where a log tells each prefill batch: the tokens between two readings of the decode rate."""
    batches, decode = now.window.find(Signal.BATCH_COMPUTED_TOKENS), now.decode
    if batches is None or decode is None or len(decode.readings) < 2:
        return None
    readings = [Reading(decode.first.at, 0.0, "0")]
    for before, after in zip(decode.readings, decode.readings[1:], strict=False):
        part = batches.between(before.at, after.at)
        seconds = max(after.at - before.at, 1.0)
        rate = (sum(part.values) if part is not None else 0.0) / seconds
        readings.append(Reading(after.at, rate, number(round(rate))))
    return Series(signal=Signal.PROMPT_RATE, origin=batches.origin, readings=tuple(readings))


def _cite_chunk(argument: Argument, now: Activity) -> None:
    """How long one step with a full chunk takes."""
    budget = told_number(
        now.window,
        r"max (num )?batched tokens|chunk(ed)? (prefill )?size|prefill chunk|n ?u?batch$",
    )
    longest = longest_prompt(now.window)
    if longest is not None:
        argument.says(f"prompts: {longest.says}")
    chunk = number_of(budget)
    if budget is None or not chunk:
        return
    told_rate = told_number(now.window, r"prefill.*per s|prompt.*per s")
    rate = number_of(told_rate) or (now.prefill.max if now.prefill is not None else None)
    if not rate:
        argument.fact(budget)
        return
    argument.fact(budget, f"one chunk at {number(round(rate))} tokens/s is {chunk / rate:.2g} s")


def _weigh(argument: Argument, now: Activity) -> None:
    if now.has_room:
        argument.against("cache.thrash: the cache has room, nobody is thrown out")
    if now.waiting is not None and now.waiting.last.value == 0:
        argument.against("queue.overload, queue.head_of_line: nothing waits")
    argument.against("engine.hung: prefill goes on")


def _told(argument: Argument, window: Window) -> bool:
    """Slower beside prefill than without it, in figures of somebody who measured both."""
    longest = longest_prompt(window)
    is_prefilling = longest is not None and longest.value >= _LONG_PROMPT
    pattern = r"(?=.*\b(itl|tpot|inter token|decode|generation|gen|tok\w*|stream|stall|tps|wall)\b)"
    found = False
    for slow in slowdowns(window, base=_ALONE, other=_WHILE_PREFILL, pattern=pattern):
        if slow.factor < _SLOWER or re.search(_OF_PREFILL, slow.contrast.keys):
            continue
        if is_prefilling or re.search(_BY_PREFILL, slow.contrast.other.key):
            argument.says(slow.says)
            found = True
    if found and longest is not None:
        argument.says(longest.says)
    for fact in told_all(window, r"prefill (steps|batches|burst|chunks)|chunks? (tokens|size)"):
        if found:
            argument.fact(fact)
    return found


def _of_tail(argument: Argument, now: Activity) -> Verdict | None:
    """A few tokens that wait very long, among many that do not, while much is prefilled."""
    tail = _tail_of_histogram(argument, now) or _tail_told(argument, now)
    if not tail or (now.is_full and now.preemptions is None):
        return None
    is_prefilling = _is_mostly_prefill(argument, now)
    argument.series(now.kv)
    argument.series(now.waiting)
    _cite_chunk(argument, now)
    _weigh(argument, now)
    if is_prefilling:
        return argument.verdict(Confidence.LIKELY)
    argument.need(
        "prefill tokens computed over time", "tokens of a step (prefill and decode)", "step time"
    )
    return argument.verdict(Confidence.POSSIBLE)


def _tail_of_histogram(argument: Argument, now: Activity) -> bool:
    for signal in (Signal.ITL, Signal.TPOT, Signal.GATEWAY_TPOT):
        histogram = now.window.find_histogram(signal)
        if histogram is None:
            continue
        middle, tail = histogram.quantile(0.5), histogram.quantile(0.99)
        if middle is None or tail is None or tail < max(_TAIL_SECONDS, _TAIL * middle):
            continue
        argument.histogram(
            histogram,
            tail,
            f"{histogram.origin.name}: median about {middle * 1000:.3g} ms, p99 about "
            f"{tail * 1000:.3g} ms",
        )
        return True
    return False


def _tail_told(argument: Argument, now: Activity) -> bool:
    facts = told_all(now.window, r"\b(itl|tpot|inter token|decode latency|token gap|gap)\b")
    middles = [fact for fact in facts if fact.quantile == 0.5 and fact.value]
    tails = [
        fact
        for fact in facts
        if fact.value and ((fact.quantile or 0) >= 0.95 or re.search(r"\bmax\b", plain(fact.key)))
    ]
    if not middles or not tails:
        return False
    middle, tail = middles[-1].value or 0.0, tails[-1].value or 0.0
    if tail < max(_TAIL_SECONDS, _TAIL * middle):
        return False
    argument.fact(middles[-1])
    argument.fact(tails[-1])
    return True


def _is_mostly_prefill(argument: Argument, now: Activity) -> bool:
    prefill, decode = now.prefill, now.decode
    if prefill is not None and decode is not None and prefill.mean >= _MUCH_PREFILL * decode.mean:
        argument.says(
            f"{number(round(prefill.mean))} tokens/s of prefill beside "
            f"{number(round(decode.mean))} of decode"
        )
        return prefill.mean >= _LEAST_PREFILL
    lengths = prompts_by_histogram(now.window)
    if lengths is not None and lengths[1] >= _LONG_PROMPT:
        argument.says(f"prompts up to about {number(round(lengths[1]))} tokens (p99)")
        return True
    longest = longest_prompt(now.window)
    beside = told(now.window, r"long prompts|prefill share|prefill tokens")
    if longest is not None and longest.value >= _LONG_PROMPT:
        argument.says(longest.says)
        return True
    argument.fact(beside)
    return beside is not None


INTERFERENCE = Rule(
    id="interference-prefill",
    mechanism=Mechanism.INTERFERENCE_PREFILL,
    judge=judge,
    needs=(
        "decode rate or time between tokens over time",
        "prefill rate or prompt lengths over time",
        "KV cache usage or preemptions",
    ),
    told_apart="From thrash by a cache with room and no preemptions, from head of line by requests "
    "that already decode, from a hung engine by prefill that goes on.",
    remedy="Smaller prefill chunks (max-num-batched-tokens), or prefill on workers of its own.",
    hides="Smaller chunks make first tokens later: look at TTFT of long prompts after it.",
    explains=frozenset({Mechanism.QUEUE_BURST_DRAINING}),
)
