"""Replicas side by side and their gateway over 90 s, from a few words each; what the rules say."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules import COMPARED
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.window import Doubt, Window
from dataplane.engine_metrics.signal import Signal

EVERY, END = 2.0, 90.0
ONSET = 30.0
MOMENTS = [EVERY * index for index in range(round(END / EVERY) + 1)]
Course = Callable[[float], float]

RULES = (HUNG, *COMPARED)


def gauge(signal: Signal, course: Course, replica: str = "", until: float = END) -> Series:
    """Of a replica, or of the gateway where none is named."""
    kind = SourceKind.METRICS if replica else SourceKind.GATEWAY
    readings = tuple(Reading(at, course(at), f"{course(at):g}") for at in MOMENTS if at <= until)
    return Series(
        signal=signal,
        origin=Origin(kind=kind, name=signal.value, place=replica),
        readings=readings,
        labels={"replica": replica} if replica else {},
    )


def counter(signal: Signal, rate: Course, replica: str = "") -> Series:
    """Rises by `rate` a second."""
    totals, total = {}, 1000.0
    for at in MOMENTS:
        totals[at] = total
        total += rate(at) * EVERY
    return gauge(signal, lambda at: totals[at], replica)


def counted_at_end(rate: Course, every: float, replica: str = "") -> Series:
    """Generated tokens at `rate` a second, which show when an answer ends, every so many seconds;
    under llama.cpp's name for them."""
    totals, total, shown = {}, 1000.0, 1000.0
    for at in MOMENTS:
        shown = total if at % every == 0 else shown
        totals[at] = shown
        total += rate(at) * EVERY
    made = gauge(Signal.GENERATION_TOKENS, lambda at: totals[at], replica)
    return replace(made, origin=replace(made.origin, name="llamacpp:tokens_predicted_total"))


def switched(before: float, after: float) -> Course:
    return lambda at: before if at < ONSET else after


def same(value: float) -> Course:
    return lambda at: value


def wobble(mean: float) -> Course:
    """Never the same twice in a row, as gauges of a batch that works."""
    return lambda at: mean + (round(at / EVERY) % 3) - 1


def found(window: Window) -> dict[Mechanism, Confidence]:
    """What the rules say."""
    return {
        rule.mechanism: verdict.confidence
        for rule in RULES
        if (verdict := rule.judge(window)) is not None
    }


def fleet(*series: Series, facts: Sequence[Fact] = (), doubts: Sequence[Doubt] = ()) -> Window:
    names = frozenset(each.origin.name for each in series)
    return Window(
        start=0,
        end=END,
        series=series,
        facts=tuple(facts),
        doubts=tuple(doubts),
        exported_names=names,
    )


def working(replica: str, tokens: float = 100.0, finished: float = 3.0) -> list[Series]:
    return [
        gauge(Signal.RUNNING, wobble(5), replica),
        gauge(Signal.WAITING, same(0), replica),
        gauge(Signal.KV_USAGE, lambda at: 0.2 + at / 1000, replica),
        counter(Signal.GENERATION_TOKENS, same(tokens), replica),
        counter(Signal.COMPUTED_PROMPT_TOKENS, same(tokens), replica),
        counter(Signal.FINISHED, same(finished), replica),
    ]


def frozen(replica: str) -> list[Series]:
    """From the onset on nothing of it changes."""
    return [
        gauge(Signal.RUNNING, lambda at: 4.0 + (at < ONSET) * (at % 4) / 2, replica),
        counter(Signal.GENERATION_TOKENS, switched(100, 0), replica),
        counter(Signal.FINISHED, switched(3, 0), replica),
    ]


def gateway(ended: Course, arrived: Course, in_flight: Course) -> list[Series]:
    return [
        counter(Signal.GATEWAY_ENDED, ended),
        counter(Signal.GATEWAY_ARRIVED, arrived),
        gauge(Signal.GATEWAY_IN_FLIGHT, in_flight),
    ]
