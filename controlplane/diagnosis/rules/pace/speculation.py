"""Drafts are computed and hardly ever accepted, or cost more than they save."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.acceptance import Acceptance, acceptance_of, fell
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.modes import between_modes, keys_of
from controlplane.diagnosis.views.slowdown import Slowdown, slowdowns, slower_than_told
from controlplane.diagnosis.views.told import number_of, plain, told, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.lines import DECODE_SPEED
from controlplane.diagnosis.words.speeds import OF_PROMPTS
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
_OFF = (
    r"^\s*(off|no|none|false|disabled|0|without|vanilla|autoregressive|baseline|plain)\b|\bno draft"
)
_ON = rf"^\s*(on|true|enabled|yes|with|\d+ )|{_SPECULATION}"
_ITS_OWN = r"accept|ttft|draft time|draft ms"
"""Figures of drafts themselves, which are no speed of answers."""


def judge(window: Window) -> Verdict | None:
    """LIKELY where hardly a draft is accepted, CERTAIN where it was measured to be no faster."""
    acceptance = acceptance_of(window)
    argument = Argument(window)
    compared = _compared(argument, window, acceptance)
    if acceptance is None and not compared:
        return None
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
        sure = low or (_is_told_twice(compared) and max(factors) >= _CLEARLY)
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)
    if acceptance is None or factors:
        return None
    return _by_acceptance(argument, window, acceptance)


def _is_told_twice(compared: list[Slowdown]) -> bool:
    """One setting differs between two runs that were told in the same words."""
    return bool(compared) and compared[0].contrast.base.key == compared[0].contrast.other.key


_CLEARLY = 1.1
"""Times as slow: more than two runs of one thing differ by."""


def _by_acceptance(argument: Argument, window: Window, acceptance: Acceptance) -> Verdict | None:
    """Where nobody measured the speed without."""
    is_much = acceptance.drafted is None or acceptance.drafted >= _LEAST_TOKENS
    if acceptance.share < _HARDLY and is_much:
        return argument.verdict(Confidence.LIKELY)
    sank = fell(window)
    if sank:
        argument.says(sank)
    if acceptance.share >= _LITTLE and not sank:
        return None
    if acceptance.share < _LITTLE and sank:
        return argument.verdict(Confidence.LIKELY)
    argument.need("speed without speculation under the same load", "tokens drafted at a time")
    return argument.verdict(Confidence.POSSIBLE)


def _against_measured(window: Window) -> tuple[float, str] | None:
    """The speed that was told of before, or without drafts, against what is measured now."""
    if not _is_drafting(window, None):
        return None
    now = activity_of(window)
    told_before = slower_than_told(
        window, now.decode, rf"{_WITHOUT}|(?=.*{_SPECULATION})(?=.*no\b)"
    )
    if told_before is not None or now.decode is not None:
        return told_before
    speeds = [
        float(found[1])
        for line in window.lines_with(DECODE_SPEED)
        if (found := re.search(DECODE_SPEED, line, re.IGNORECASE)) is not None
    ]
    before = told_number(window, _WITHOUT, without=OF_PROMPTS)
    value = number_of(before)
    if not speeds or before is None or not value:
        return None
    return value / speeds[-1], f"{before.key} {before.raw}, {speeds[-1]:g} tokens/s with drafts"


def _is_drafting(window: Window, acceptance: Acceptance | None) -> bool:
    """Something is drafted, by figures or words of whoever runs it. That speculation was switched
    on once, as a change says, is no figure."""
    signals = (Signal.ACCEPTANCE_LENGTH, Signal.DRAFT_TOKENS, Signal.SPECULATED_TOKENS)
    return bool(
        acceptance is not None
        or any(window.find(signal) for signal in signals)
        or told(window, _SPECULATION)
        or window.lines_with(r"n_draft|draft acceptance")
    )


def _cite(argument: Argument, window: Window) -> None:
    efficiency = window.find(Signal.SPECULATION_EFFICIENCY)
    width = window.find(Signal.SPECULATED_TOKENS)
    for signal in (Signal.ACCEPTANCE_RATE, Signal.ACCEPTANCE_LENGTH):
        argument.series(window.find(signal))
    if efficiency is None:
        return
    why = ""
    if width is not None and efficiency.last.value <= 1.2 / (width.last.value + 1):
        emitted = number(width.last.value + 1)
        why = f"one token emitted for {emitted} verified (1/{emitted})"
    argument.series(efficiency, why)


def _compared(argument: Argument, window: Window, acceptance: Acceptance | None) -> list[Slowdown]:
    """With and without: by the keys, by a setting that was told at two times, or before and now
    while something is known to be drafted."""
    told_twice, modes = between_modes(window, _OFF, _ON, _ITS_OWN, about=_SPECULATION)
    if told_twice:
        argument.says(keys_of(modes))
        return told_twice
    is_since = bool(window.changes_with(_SPECULATION)) and _is_drafting(window, acceptance)
    found = []
    for slow in slowdowns(window, base=_WITHOUT, other=_WITH):
        keys = f"{plain(slow.contrast.base.key)} {plain(slow.contrast.other.key)}"
        is_about = re.search(_SPECULATION, keys) or is_since
        if is_about and not re.search(_ITS_OWN, keys):
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
