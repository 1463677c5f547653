"""How much of what is drafted is accepted, by whatever engine or caller counts it."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.told import number_of, share_of, texts_of, told_number
from controlplane.diagnosis.views.trend import falls
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_ACCEPTANCE = r"accept\w*( \w+)? (rate|ratio|share|percent|pct)|(draft|spec\w*)( \w+)? accept\w*$"
_LENGTH = r"accept\w*( \w+)? (len|length)|tokens per (step|verif\w*|forward)|mean accept"
_HARDLY_LONGER = 1.15
"""Tokens for each verification: one is the target's own, so that hardly a draft was accepted,
however long drafts are."""
_SUNK = 0.5
_SEVERAL = 6


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Of drafted tokens."""

    share: float
    drafted: float | None
    says: tuple[str, ...]


def acceptance_of(window: Window) -> Acceptance | None:
    """The first that anybody counts, counters before figures of single lines; None where nobody
    does, or nothing is drafted: SGLang's gauges stand at 0 then."""
    length = window.find(Signal.ACCEPTANCE_LENGTH)
    if length is not None and length.max < 1:
        return None
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
    if value is None:
        return None
    if not many and value > _HARDLY_LONGER:
        return None
    name = length.origin.name if length is not None else ""
    raw = length.last.raw if length is not None else ""
    says = (
        f"{name} {raw}" if name or told_length is None else f"{told_length.key} {told_length.raw}"
    )
    share = max(0.0, value - 1) / (many or 1.0)
    of = f" of {number(many)} drafted" if many else ": one token each is the target's own"
    return Acceptance(share=share, drafted=None, says=(f"{says}{of}",))


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


def fell(window: Window) -> str:
    """It sank within the window, or against what was told of before, by more than texts differ."""
    for series in window.all_series(Signal.ACCEPTANCE_RATE):
        is_seen = len(series.readings) >= _SEVERAL or falls(series.values)
        if is_seen and series.max > 0 and series.last.value <= _SUNK * series.max:
            return f"{series.origin.name} sank to {series.last.raw} from {series.max:.3g}"
    for contrast in contrasts(window, _ACCEPTANCE, is_share=True):
        if contrast.base_value > 0 and contrast.factor <= _SUNK:
            return contrast.says
    length, before = window.find(Signal.ACCEPTANCE_LENGTH), _length_before(window)
    was = number_of(before)
    if length is None or before is None or was is None or was <= 1:
        return ""
    if late(length) - 1 > _SUNK * (was - 1):
        return ""
    return f"{before.key} {before.raw}, {length.origin.name} {length.last.raw}"


def _length_before(window: Window) -> Fact | None:
    return told_number(
        window, rf"(?=.*({_LENGTH}))(?=.*\b(before|baseline|was|usual|old|earlier)\b)"
    )
