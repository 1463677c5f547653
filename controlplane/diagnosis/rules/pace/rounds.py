"""What the collectives of a token take, worked out: how many there are, and how long each is."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.told import number_of, plain, told_all, value_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_ROUND = (
    r"all ?reduces?|all ?gathers?|reduce ?scatters?|all ?to ?alls?|collectives?|round ?trips?"
    r"|messages|syncs?|hops?|broadcasts?|exchanges|barriers"
)
_MANY = rf"\b({_ROUND})\b.*\b(per|each|in a|a) (token|forward|step|pass|iteration|layer)\b"
_SIZED = rf"(?=.*\b({_ROUND})\b).*\b(\d+ ?([kmg]i?b?|bytes?)|small|large|short|big)\b"
_EACH = rf"\b({_ROUND}|rtt|latency)\b"
_BETTER = (
    r"\b(one ?shot|two ?shot|fast|nvlink|with|reference|published|other|best|after|fixed|custom"
    r"|wanted|possible|rdma)\b"
)
_NOT_EACH = rf"{_BETTER}|ttft|e2e|request|token|queue|p99|client|\bper\b|share|without|except"
_STEP = r"\b(step|forward|iteration|tpot|itl|per token|decode)\b"
_REFERENCE = (
    r"\b(reference|published|expected|promised|advertised|same cards?|other (host|machine|node)"
    r"|nvlink|with p2p|peer|bridge|baseline|usual|elsewhere)\b"
)
_LONGEST_ROUND = 0.1
"""Seconds: what is longer is no single collective of a step."""
_ACCOUNTS = (0.6, 1.7)
"""Of what is lost against a reference: measured under other loads, within half."""
_LEAST_SHARE = 0.1
_LOST = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The collectives of one step."""

    seconds: float
    step: float
    """Seconds."""
    says: str
    accounts: bool
    """They take about what is lost against a reference."""

    @property
    def share(self) -> float:
        """Of a step."""
        return self.seconds / self.step


def rounds_of(now: Activity) -> Rounds | None:
    """None where their number, their length or a step is not known."""
    many, each, step = _many(now.window), _each(now.window), _step(now)
    if many is None or each is None or step is None:
        return None
    by_size = _by_size(now.window)
    if len(by_size) > 1:
        return _between(now, many, by_size, step)
    layers = _layers(now.window, many)
    if layers is None:
        return None
    spent = (many.value or 0.0) * layers * (each.value or 0.0)
    if not 0 < spent <= step.value:
        return None
    lost = _lost(now, step.value)
    sentence = (
        f"{number((many.value or 0.0) * layers)} x {each.raw} = {spent * 1000:.3g} ms of "
        f"{step.says} ({says(many)}, {says(each)})"
    )
    accounts = False
    if lost is not None:
        accounts = _ACCOUNTS[0] <= spent / lost.value <= _ACCOUNTS[1]
        sentence += f"; {lost.says}"
    return Rounds(seconds=spent, step=step.value, says=sentence, accounts=accounts)


def _between(now: Activity, many: Fact, by_size: list[Fact], step: Figure) -> Rounds | None:
    """Measured for several sizes of message, of which a step's lie somewhere between: what is lost
    against a reference lies there as well, or it has another cause."""
    layers, lost = _layers(now.window, many), _lost(now, step.value)
    if layers is None or lost is None:
        return None
    count = (many.value or 0.0) * layers
    least, most = (count * (fact.value or 0.0) for fact in (by_size[0], by_size[-1]))
    if least > step.value:
        return None
    sentence = (
        f"{number(count)} x {by_size[0].raw} to {by_size[-1].raw} = {least * 1000:.3g} to "
        f"{most * 1000:.3g} ms of {step.says} ({says(many)}, {says(by_size[0])}, "
        f"{says(by_size[-1])}); {lost.says}"
    )
    accounts = least / _ACCOUNTS[1] <= lost.value <= most / _ACCOUNTS[0]
    return Rounds(seconds=least, step=step.value, says=sentence, accounts=accounts)


def _by_size(window: Window) -> list[Fact]:
    """Times of one kind of collective that differ in the size of the message, shortest first."""
    found = [
        fact
        for fact in told_all(window, _SIZED, without=_NOT_EACH)
        if fact.unit is Unit.SECONDS and 0 < (fact.value or 0.0) <= _LONGEST_ROUND
    ]
    return sorted({fact.key: fact for fact in found}.values(), key=lambda fact: fact.value or 0.0)


def is_telling(rounds: Rounds) -> bool:
    """Too little of a step to call it bound by them, and yet what is lost against a reference."""
    return rounds.accounts and rounds.share >= _LEAST_SHARE


def _many(window: Window) -> Fact | None:
    found = [
        fact
        for fact in told_all(window, _MANY)
        if fact.unit not in (Unit.SECONDS, Unit.BYTES) and fact.value
    ]
    return found[-1] if found else None


def _layers(window: Window, many: Fact) -> float | None:
    """Where they are told for one layer, how many layers there are; one where they are of all."""
    if not re.search(r"\blayer\b", plain(many.key)):
        return 1.0
    return value_of(window, r"^(num )?(hidden )?layers$|\blayers\b")


def _each(window: Window) -> Fact | None:
    """The plain one: what another way would take is told beside it."""
    found = [
        fact
        for fact in told_all(window, _EACH, without=_NOT_EACH)
        if fact.unit is Unit.SECONDS and 0 < (fact.value or 0.0) <= _LONGEST_ROUND
    ]
    return found[-1] if found else None


def _step(now: Activity) -> Figure | None:
    """As it was told, else by the speed of each stream and by how many tokens a step selects."""
    told_steps = [
        fact
        for fact in told_all(now.window, _STEP, without=rf"{_BETTER}|{_ROUND}|ttft|tokens")
        if fact.unit is Unit.SECONDS and fact.value
    ]
    if told_steps:
        fact = told_steps[-1]
        return Figure(number_of(fact) or 0.0, f"{says(fact)}", fact)
    if now.decode is None or late(now.decode) <= 0:
        return None
    streams = 1.0 if now.running is None else max(late(now.running), 1.0)
    length = now.window.find(Signal.ACCEPTANCE_LENGTH)
    tokens = streams * (1.0 if length is None else max(late(length), 1.0))
    seconds = tokens / late(now.decode)
    return Figure(seconds, f"a step of {seconds * 1000:.3g} ms")


def _lost(now: Activity, step: float) -> Figure | None:
    """Seconds of a step more than where somebody is faster with the same."""
    if now.decode is None or late(now.decode) <= 0:
        return None
    for fact in told_all(now.window, _REFERENCE, without=r"prompt|prefill|input|accept"):
        value = fact.value
        if fact.unit is not Unit.TOKENS_PER_SECOND or not value:
            continue
        if value >= _LOST * late(now.decode) and not re.search(r"\btotal\b", plain(fact.key)):
            seconds = step * (1 - late(now.decode) / value)
            return Figure(seconds, f"against {says(fact)} it loses {seconds * 1000:.3g} ms a step")
    return None
