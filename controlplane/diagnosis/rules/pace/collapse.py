"""Decoding that collapses in exactly the readings in which prefill goes on."""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rules.pace.prefill_chunk import cite_chunk, weigh
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.prompts import longest_prompt
from dataplane.engine_metrics.signal import Signal

COLLAPSED = 0.35
"""Of the decode rate without prefill: chunked prefill beside a full decode batch costs less."""
_SURELY_COLLAPSED = 0.2
_MANY_READINGS = 12
_LEAST_MOMENTS = 3
"""Of many readings: one or two are the first prompts of a batch that begins."""
_HIGH = 0.5
"""Of the highest prefill rate: the readings in which prefill goes on."""
_LOW = 0.2
LEAST_PREFILL = 100.0
"""Tokens a second: less is no load on anything."""
LONG_PROMPT = 4_000


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


def of_collapse(argument: Argument, now: Activity, collapse: Collapse) -> Verdict:
    argument.series(
        now.decode,
        f"{number(round(collapse.alone, 1))} -> {number(round(collapse.beside, 1))} tokens/s while "
        f"prefill does about {number(round(collapse.prefill))}",
    )
    argument.series(now.prefill)
    argument.series(now.running, "as many run as before")
    argument.series(now.kv)
    argument.series(now.waiting)
    cite_chunk(argument, now)
    weigh(argument, now)
    longest = longest_prompt(now.window)
    is_told = longest is not None and longest.value >= LONG_PROMPT
    is_seen = collapse.moments > 1 or is_told
    sure = collapse.share <= _SURELY_COLLAPSED and is_seen and now.has_room
    if now.is_full and (now.preemptions is None or len(now.preemptions.readings) < 2):
        argument.need("preemptions or retractions over time")
        return argument.verdict(Confidence.POSSIBLE)
    return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)


def collapse_of(now: Activity) -> Collapse | None:
    """Engines count a prompt when its prefill ends, so that it may show one reading later. One
    request alone does not decode while its own prompt is read."""
    decode, prefill = now.decode, now.prefill or prefill_of_batches(now)
    if decode is None or prefill is None:
        return None
    most = prefill.max
    if most < LEAST_PREFILL:
        return None
    if now.running is not None and now.running.max <= 1:
        return None
    moments = _moments(now, decode, prefill)
    alone = [each for each in moments if each.prefill <= _LOW * most and each.decode > 0]
    if not alone:
        return None
    best = max(alone, key=lambda each: each.decode)
    beside = [each for each in moments if each.soon >= _HIGH * most and each is not best]
    least = best.running or 0.0
    kept = [each for each in beside if each.running is None or each.running >= least]
    slowed = [each for each in kept if each.decode <= COLLAPSED * best.decode]
    if not slowed or len(slowed) * 2 < len(kept):
        return None
    if len(moments) >= _MANY_READINGS and len(slowed) < _LEAST_MOMENTS:
        return None
    return Collapse(
        alone=best.decode,
        beside=sorted(each.decode for each in slowed)[len(slowed) // 2],
        prefill=max(each.soon for each in slowed),
        moments=len(slowed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """One reading of decode, and what went on beside it. Tokens a second."""

    decode: float
    prefill: float
    soon: float
    """The prefill of this reading or of the next, whichever is more."""
    running: float | None


def _moments(now: Activity, decode: Series, prefill: Series) -> list[_Moment]:
    moments = []
    for place, reading in enumerate(decode.readings):
        at_once = prefill.at(reading.at)
        if at_once is None:
            continue
        later = decode.readings[place + 1].at if place + 1 < len(decode.readings) else reading.at
        following = prefill.at(later)
        moments.append(
            _Moment(
                decode=reading.value,
                prefill=at_once.value,
                soon=at_once.value if following is None else max(at_once.value, following.value),
                running=_running_at(now, reading.at),
            )
        )
    return moments


def _running_at(now: Activity, moment: float) -> float | None:
    reading = None if now.running is None else now.running.at(moment)
    return None if reading is None else reading.value


def prefill_of_batches(now: Activity) -> Series | None:
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
