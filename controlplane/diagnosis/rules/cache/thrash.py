"""Running requests are thrown out for room and computed again, at a rate that costs."""

import itertools

from controlplane.diagnosis.citing import course, number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache.slot_turns import slots_take_turns
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import stretch_while
from controlplane.diagnosis.views.places import each_by_its_series, with_places
from controlplane.diagnosis.views.preempting import Preempting, preempting
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import BETWEEN_TOKENS
from dataplane.engine_metrics.signal import Signal

_FEWEST = 3
_FEW_READINGS = 8
_ASIDE = (
    Signal.SWAPPED,
    Signal.PAUSED,
    Signal.FINISHED,
    Signal.BATCH_COMPUTED_TOKENS,
    Signal.BATCH_CACHED_TOKENS,
)
"""Where those go that are thrown out, and how they come back."""
_NEARLY_FULL = 0.75
"""Of the cache, in the reading after requests were thrown out of it."""
_SLOWER = 0.5
"""Of the best: no batch that changes by a request or two does that."""
_ANSWERS_EACH = 3.0
_SWAPPED_SHARE = 0.1
"""Of the batch: moved out to host memory and back."""


def judge(window: Window) -> Verdict | None:
    """LIKELY with a full cache and preemptions that cost; CERTAIN where the tokens that are
    computed again were counted too. Of one replica or rank if there are several."""
    return with_places(_judge(window), each_by_its_series(window), _judge_place)


def _judge_place(part: Window) -> Verdict | None:
    """What is only a hint of one place is none."""
    verdict = _judge(part)
    return None if verdict is None or verdict.confidence < Confidence.LIKELY else verdict


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    argument = Argument(window)
    thrown = preempting(now)
    inside = None if now.in_flight is None else now.in_flight.max
    if thrown is not None and inside is not None and inside <= 1:
        return None
    back = _back_to_waiting(now)
    if back is not None and (thrown is None or not thrown.is_costly):
        return back
    turns = slots_take_turns(window)
    if turns is not None:
        return turns
    if thrown is None:
        return _swapping(argument, now)
    if thrown.count <= 0:
        return None
    _cite_thrown(argument, thrown)
    again = _counted_again(argument, window)
    _cite(argument, now)
    if thrown.is_costly:
        return _costly(argument, now, thrown, is_again=again)
    return None if _is_settled_otherwise(thrown, again) else _may_be(argument, now)


def _cite_thrown(argument: Argument, thrown: Preempting) -> None:
    if thrown.series is not None:
        argument.series(thrown.series, thrown.cost)
        _cite_each(argument, thrown.series)
    else:
        argument.says(thrown.says + (f" ({thrown.cost})" if thrown.cost else ""))


def _costly(argument: Argument, now: Activity, thrown: Preempting, *, is_again: bool) -> Verdict:
    """So many are thrown out that it costs: CERTAIN where what they lost is counted again."""
    if now.is_full is False and not is_again and thrown.series is not None:
        argument.against("the cache is not full, and yet requests are thrown out")
        argument.need("KV cache usage at the time of the preemptions")
        return argument.verdict(Confidence.POSSIBLE)
    argument.against("queue.overload: work that is done twice, not only work that waits")
    argument.against("interference.prefill: what is prefilled again was running before")
    return argument.verdict(Confidence.CERTAIN if is_again else Confidence.LIKELY)


def _back_to_waiting(now: Activity) -> Verdict | None:
    """Requests go from running back to waiting: the batch falls by as many as the queue rises,
    nothing ended and nothing came. vLLM counts a preemption only when the request writes again."""
    running, waiting, kv = now.running, now.waiting, now.kv
    prompts = now.window.find(Signal.PROMPT_TOKENS)
    if running is None or waiting is None or kv is None or now.finished is None or prompts is None:
        return None
    back = 0.0
    for before, after in itertools.pairwise(running.readings):
        old, new = waiting.at(before.at), waiting.at(after.at)
        ended = _grown(now.finished, before.at, after.at)
        came = _grown(prompts, before.at, after.at)
        if old is None or new is None or ended or came:
            continue
        fell, rose = before.value - after.value, new.value - old.value
        if fell > 0 and rose > 0 and abs(fell - rose) <= 1:
            back += fell
    if back < _FEWEST or kv.max < _NEARLY_FULL:
        return None
    argument = Argument(now.window)
    argument.series(running, f"{number(back)} went back to waiting")
    argument.series(waiting, "as many more, with nothing ended and nothing new")
    argument.series(kv)
    argument.series(now.finished)
    argument.series(prompts)
    argument.series(now.preemptions, "counted only when the request writes its next token")
    argument.against("queue.overload: what waits was running before")
    return argument.verdict(Confidence.LIKELY)


def _grown(series: Series, start: float, end: float) -> float:
    first, last = series.at(start), series.at(end)
    return 0.0 if first is None or last is None else last.value - first.value


def _is_settled_otherwise(thrown: Preempting, again: bool) -> bool:
    """Measured against the work, and cheap."""
    return thrown.is_measured and not again and thrown.series is not None


def _may_be(argument: Argument, now: Activity) -> Verdict:
    argument.need(
        "preemptions over time (num_preemptions_total, num_retracted_requests_total)",
        "requests finished in the same time",
        "prefill tokens computed, and step time",
    )
    graph = now.window.find(Signal.CUDA_GRAPH)
    if now.decode is not None and now.decode.last.value < _SLOWER * now.decode.max:
        argument.series(now.decode, "it got slower")
        if graph is None or graph.last.at < now.decode.last.at:
            argument.need("cuda graph flag or cuda_graph_passes_total after the retraction")
    return argument.verdict(Confidence.POSSIBLE)


def _counted_again(argument: Argument, window: Window) -> bool:
    """Tokens given up by retractions, or more computed than prompts have."""
    lost = window.find(Signal.RETRACTED_TOKENS)
    if lost is not None and (lost.increase or 0.0) > 0:
        argument.series(lost, "given up, and computed again")
        return True
    computed, asked = window.find(Signal.COMPUTED_PROMPT_TOKENS), window.find(Signal.PROMPT_TOKENS)
    done = None if computed is None else computed.increase
    wanted = None if asked is None else asked.increase
    if computed is not None and done and wanted and done > 1.15 * wanted and _many_ended(window):
        argument.says(
            f"{number(done)} prompt tokens computed for prompts of {number(wanted)} tokens"
        )
        argument.series(computed, "computed")
        argument.series(asked, "asked for")
        return True
    fact = told_number(window, r"recomput\w* .*(token|share|percent)|tokens? .*recomput")
    if (number_of(fact) or 0.0) > 0:
        argument.fact(fact)
        return True
    return False


def _cite_each(argument: Argument, counted: Series) -> None:
    """What was added from reading to reading, where those are few."""
    if not 2 < len(counted.readings) <= _FEW_READINGS:
        return
    added = ", ".join(
        number(after - before) for before, after in itertools.pairwise(counted.values)
    )
    argument.says(f"{course(counted)}: {added} from reading to reading")


def _many_ended(window: Window) -> bool:
    """What is counted by step and what is counted when an answer ends are of the same requests only
    after several answers for each place in the batch."""
    running, finished = window.find(Signal.RUNNING), window.find(Signal.FINISHED)
    ended = None if finished is None else finished.increase
    return running is not None and ended is not None and ended >= _ANSWERS_EACH * running.max


def _cite(argument: Argument, now: Activity) -> None:
    argument.series(now.kv, "the cache is full" if now.is_full else "")
    argument.series(now.running)
    argument.series(now.waiting)
    itl = now.window.find_histogram(Signal.ITL)
    slow = None if itl is None else itl.quantile(0.99)
    if itl is not None and slow is not None:
        argument.histogram(itl, slow, f"{itl.origin.name}: p99 about {slow * 1000:.4g} ms")
    argument.fact(told_number(now.window, BETWEEN_TOKENS))
    argument.series(now.decode)
    argument.series(now.prefill)
    for signal in _ASIDE:
        argument.series(now.window.find(signal))


def _swapping(argument: Argument, now: Activity) -> Verdict | None:
    """Older engines move what they throw out to host memory instead of computing it again."""
    aside = now.window.find(Signal.SWAPPED) or now.window.find(Signal.PAUSED)
    swapped = stretch_while(aside, lambda value: value > 0)
    if swapped is None or now.running is None:
        return None
    argument.series(swapped, "put aside for room, and brought back or read again")
    for fact in told_all(now.window, r"paus|preempt|recomput|context tokens|new prompt"):
        argument.fact(fact)
    _cite(argument, now)
    is_much = swapped.mean >= max(_FEWEST, _SWAPPED_SHARE * now.running.mean)
    if is_much and now.is_full and len(swapped.readings) > 1:
        return argument.verdict(Confidence.LIKELY)
    argument.need("preemptions over time", "requests swapped out over time")
    return argument.verdict(Confidence.POSSIBLE)


THRASH = Rule(
    id="cache-thrash",
    mechanism=Mechanism.CACHE_THRASH,
    judge=judge,
    needs=(
        "preemptions or retractions over time",
        "KV cache usage",
        "requests finished, or requests running, over time",
    ),
    told_apart="From overload by preemptions for each answer and not by a full cache alone; from "
    "grown contexts by work done twice; from a low hit rate, which throws nobody out.",
    remedy="Keep headroom at admission: a watermark of 2 to 5 %, fewer seats, or reservations for "
    "outputs.",
    hides="Fewer seats make the queue longer: TTFT rises while tokens get faster; a larger cache "
    "hides contexts that grew.",
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.INTERFERENCE_PREFILL,
            Mechanism.CACHE_GROWN_CONTEXTS,
            Mechanism.QUEUE_BURST_DRAINING,
        }
    ),
)
