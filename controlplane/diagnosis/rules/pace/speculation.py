"""Drafts are computed and hardly ever accepted."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.slowdown import Slowdown, slowdowns, slower_than_told
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    share_of,
    texts_of,
    told,
    told_number,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_HARDLY = 0.15
"""Of drafted tokens. A draft costs a tenth of a target step or more, and verifying k tokens is not
free beside a full batch: below it no setting of k pays."""
_LITTLE = 0.3
"""Pays only for short drafts and small batches."""
_NO_GAIN = 0.98
_LEAST_TOKENS = 200
"""Drafted; fewer is a few requests."""
_SPECULATION = (
    r"\bspec(ulat\w*)?\b|draft\w*|medusa|eagle\d?|mtp|n ?gram|lookahead|dflash|suffix decoding"
)
_WITH = rf"({_SPECULATION}|\b(with|on|enabled|after)\b)"
_WITHOUT = (
    r"\b(without|no|off|disabled|plain|baseline|before|vanilla|autoregressive|normal|target only)\b"
)
_ACCEPTANCE = r"accept\w*( \w+)? (rate|ratio|share|percent|pct)|(draft|spec\w*)( \w+)? accept\w*$"
_LENGTH = r"accept\w*( \w+)? (len|length)|tokens per (step|verif\w*|forward)|mean accept"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Of drafted tokens."""

    share: float
    drafted: float | None
    says: tuple[str, ...]


def judge(window: Window) -> Verdict | None:
    """LIKELY where hardly a draft is accepted, CERTAIN where it was measured to be no faster."""
    acceptance = _acceptance(window)
    compared = _compared(window)
    if acceptance is None and not compared:
        return None
    argument = Argument(window)
    if acceptance is not None:
        for sentence in acceptance.says:
            argument.says(sentence)
    _cite(argument, window)
    against_now = _against_measured(window)
    if against_now is not None:
        argument.says(against_now[1])
    factors = [slow.factor for slow in compared] + ([against_now[0]] if against_now else [])
    is_slower = bool(factors) and max(factors) >= _NO_GAIN
    for slow in compared[:2]:
        argument.says(slow.says)
    now = activity_of(window)
    argument.series(now.running)
    argument.series(now.waiting)
    argument.against("interference.prefill: it is what is drafted that is thrown away")
    if is_slower:
        low = acceptance is not None and acceptance.share < _LITTLE
        return argument.verdict(Confidence.CERTAIN if low else Confidence.LIKELY)
    if acceptance is None or factors:
        return None
    is_much = acceptance.drafted is None or acceptance.drafted >= _LEAST_TOKENS
    if acceptance.share < _HARDLY and is_much:
        return argument.verdict(Confidence.LIKELY)
    fell = _fell(window)
    if fell and acceptance.share < _LITTLE:
        argument.says(fell)
        return argument.verdict(Confidence.LIKELY)
    if acceptance.share < _LITTLE:
        argument.need("speed without speculation under the same load", "tokens drafted at a time")
        return argument.verdict(Confidence.POSSIBLE)
    return None


def _fell(window: Window) -> str:
    """An engine's own figure that sank within the window, by more than texts differ."""
    for series in window.all_series(Signal.ACCEPTANCE_RATE):
        if len(series.readings) >= _SEVERAL and series.last.value <= _SUNK * series.max:
            return f"{series.origin.name} sank to {series.last.raw} from {series.max:.3g}"
    return ""


_SEVERAL = 6
_SUNK = 0.5


def _acceptance(window: Window) -> Acceptance | None:
    for find in (_counted, _of_late, _by_length, _told, _printed):
        found = find(window)
        if found is not None:
            return found
    return None


def _counted(window: Window) -> Acceptance | None:
    drafted, accepted = window.find(Signal.DRAFT_TOKENS), window.find(Signal.ACCEPTED_TOKENS)
    if drafted is None or accepted is None:
        return None
    grown, taken = drafted.increase, accepted.increase
    if grown is None or taken is None or grown <= 0:
        grown, taken = drafted.last.value, accepted.last.value
    if grown <= 0:
        return None
    says = (
        f"{accepted.last.raw} accepted of {drafted.last.raw} drafted "
        f"({accepted.origin.name}, {drafted.origin.name})",
        f"{taken / grown * 100:.3g} % of drafted tokens are accepted",
    )
    return Acceptance(share=taken / grown, drafted=max(grown, drafted.last.value), says=says)


def _of_late(window: Window) -> Acceptance | None:
    drafted, accepted = (
        window.find(Signal.LATE_DRAFT_TOKENS),
        window.find(Signal.LATE_ACCEPTED_TOKENS),
    )
    if drafted is not None and accepted is not None and sum(drafted.values) > 0:
        many, taken = sum(drafted.values), sum(accepted.values)
        says = f"{number(taken)} accepted of {number(many)} drafted in the statistics lines"
        return Acceptance(share=taken / many, drafted=many, says=(says,))
    rate = window.find(Signal.ACCEPTANCE_RATE)
    if rate is None:
        return None
    return Acceptance(share=late(rate), drafted=None, says=(f"{rate.origin.name} {rate.last.raw}",))


def _by_length(window: Window) -> Acceptance | None:
    """Tokens for each verification, one of which is the target's own."""
    length = window.find(Signal.ACCEPTANCE_LENGTH)
    width = window.find(Signal.SPECULATED_TOKENS)
    told_length = told_number(window, _LENGTH)
    value = late(length) if length is not None else number_of(told_length)
    many = width.last.value if width is not None else number_of(_width(window))
    many = many or _width_in_words(window)
    if value is None or not many:
        return None
    name = length.origin.name if length is not None else ""
    raw = length.last.raw if length is not None else ""
    says = (
        f"{name} {raw}" if name or told_length is None else f"{told_length.key} {told_length.raw}"
    )
    share = max(0.0, value - 1) / many
    return Acceptance(share=share, drafted=None, says=(f"{says} of {number(many)} drafted",))


def _width_in_words(window: Window) -> float | None:
    """`EAGLE, 5 steps, 32 draft tokens`."""
    for text in (*texts_of(window), *window.lines_with(_WIDTH)):
        found = re.search(_WIDTH, text, re.IGNORECASE)
        if found is not None:
            return float(found[1] or found[2])
    return None


_WIDTH = (
    r"(\d+) (?:draft|speculative|drafted) tokens"
    r"|(?:num_speculative_tokens|num_draft_tokens|draft_max|n_draft)\W{1,4}(\d+)"
)


def _width(window: Window) -> Fact | None:
    return told_number(
        window,
        r"(num )?(speculative|draft(ed)?|spec) tokens|draft (len|length|size|max)|num steps",
        without=r"accepted|total|rate|per s",
    )


def _told(window: Window) -> Acceptance | None:
    fact = told_number(window, _ACCEPTANCE)
    share = share_of(fact)
    if fact is not None and share is not None:
        return Acceptance(share=share, drafted=None, says=(f"{fact.key} {fact.raw}",))
    accepted = told_number(window, r"accepted( \w+)*( tokens)?$", without=r"rate|len|max|request")
    drafted = told_number(
        window, r"draft(ed)?( \w+)*( tokens)?$|proposed", without=r"accept|max|len"
    )
    taken, many = number_of(accepted), number_of(drafted)
    if accepted is None or drafted is None or taken is None or not many or taken > many:
        return None
    says = f"{accepted.key} {accepted.raw} of {drafted.key} {drafted.raw}"
    return Acceptance(share=taken / many, drafted=many, says=(says,))


def _against_measured(window: Window) -> tuple[float, str] | None:
    """The speed that was told of before, or without drafts, against what is measured now."""
    if not _is_spoken_of(window):
        return None
    now = activity_of(window)
    told_before = slower_than_told(
        window, now.decode, rf"{_WITHOUT}|(?=.*{_SPECULATION})(?=.*no\b)"
    )
    if told_before is not None or now.decode is not None:
        return told_before
    speeds = [
        float(found[1])
        for line in window.lines_with(_DECODED)
        if (found := re.search(_DECODED, line, re.IGNORECASE)) is not None
    ]
    before = told_number(window, _WITHOUT, without=r"prompt|prefill|ttft")
    value = number_of(before)
    if not speeds or before is None or not value:
        return None
    return value / speeds[-1], f"{before.key} {before.raw}, {speeds[-1]:g} tokens/s with drafts"


_DECODED = r"decoded\s.*speed:\s*([\d.]+)"


def _is_spoken_of(window: Window) -> bool:
    """Acceptance is a figure of every engine that drafts; a speed has to be about drafts."""
    return bool(
        window.changes_with(_SPECULATION)
        or told(window, _SPECULATION)
        or window.find(Signal.ACCEPTANCE_LENGTH)
        or window.lines_with(r"n_draft|draft acceptance")
    )


def _printed(window: Window) -> Acceptance | None:
    """Tools that decode once print totals at their end; a server prints them for each request."""
    drafted = _numbers(window, r"n_drafted\s*=\s*(\d+)")
    accepted = _numbers(window, r"n_accept\s*=\s*(\d+)")
    if drafted and accepted and drafted[-1] > 0:
        says = f"n_accept {number(accepted[-1])} of n_drafted {number(drafted[-1])}"
        share = f"{accepted[-1] / drafted[-1] * 100:.4g} % of drafted tokens are accepted"
        return Acceptance(accepted[-1] / drafted[-1], drafted=drafted[-1], says=(says, share))
    pairs = [
        (float(found[1]), float(found[2]), line.strip())
        for line in window.lines_with(_PER_REQUEST)
        if (found := re.search(_PER_REQUEST, line, re.IGNORECASE)) is not None
    ]
    many = sum(pair[1] for pair in pairs)
    if many <= 0:
        return None
    taken = sum(pair[0] for pair in pairs)
    return Acceptance(taken / many, drafted=many, says=(pairs[-1][2][:200],))


_PER_REQUEST = r"\(\s*(\d+) accepted\s*/\s*(\d+) (?:generated|drafted)"


def _numbers(window: Window, pattern: str) -> list[float]:
    return [
        float(found[1])
        for line in window.lines_with(pattern)
        if (found := re.search(pattern, line, re.IGNORECASE)) is not None
    ]


def _cite(argument: Argument, window: Window) -> None:
    efficiency = window.find(Signal.SPECULATION_EFFICIENCY)
    width = window.find(Signal.SPECULATED_TOKENS)
    argument.series(window.find(Signal.ACCEPTANCE_RATE))
    if efficiency is None:
        return
    why = ""
    if width is not None and efficiency.last.value <= 1.2 / (width.last.value + 1):
        emitted = number(width.last.value + 1)
        why = f"one token emitted for {emitted} verified (1/{emitted})"
    argument.series(efficiency, why)


def _compared(window: Window) -> list[Slowdown]:
    """With and without; the keys or a change have to say that it is about drafts."""
    found = []
    for slow in slowdowns(window, base=_WITHOUT, other=_WITH):
        keys = f"{plain(slow.contrast.base.key)} {plain(slow.contrast.other.key)}"
        is_about = re.search(_SPECULATION, keys) or window.changes_with(_SPECULATION)
        if is_about and not re.search(r"accept|ttft|draft time|draft ms", keys):
            found.append(slow)
    return found


SPECULATION = Rule(
    id="speculation-not-paying",
    mechanism=Mechanism.SPECULATION_NOT_PAYING,
    judge=judge,
    needs=(
        "tokens drafted and accepted over time, or speed with and without",
        "tokens drafted at a time",
    ),
    told_apart="From interference and thrash, which also slow tokens, by drafts that are thrown "
    "away while nothing waits and nobody is thrown out.",
    remedy="Switch speculation off, draft fewer tokens, or use a draft that matches the target and "
    "its template.",
    hides="Switching it off hides a draft that was built for another model, tokenizer or adapter.",
)
