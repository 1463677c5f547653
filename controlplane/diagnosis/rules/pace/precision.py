"""Lower precision was bought and does not make it faster."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.precisions import slower_in_fewer_bits
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.modes import between_modes
from controlplane.diagnosis.views.slowdown import (
    Slowdown,
    sibling_slowdown,
    slowdowns,
    slower_than_told,
)
from controlplane.diagnosis.views.told import plain, texts_of, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import BETWEEN_TOKENS, FIRST_TOKEN

_LOW = (
    r"(fp8|f8|e4m3|e5m2|fp4|nvfp4|mxfp[468]|int8|int4|w8a8|w4a16|w4a8|w8a16|awq|gptq|marlin|bnb"
    r"|bitsandbytes|nf4|q[2-8](_?k?_?[sml0]?)?|iq\d\w*|gguf|[48] ?bits?|quant\w*|low precision"
    r"|compressed|turboquant|kv ?cache ?dtype)"
)
_FULL = (
    r"(bf16|bfloat16|fp16|float16|f16|half|16 ?bits?|fp32|unquantized|unquantised|full precision"
    r"|dense|original|auto|baseline|before|without)"
)
_NO_GAIN = 0.97
"""A format of half the bytes should halve what decoding reads; nothing gained within the noise is
nothing bought."""
_LOW_WORD = rf"(?<![a-z0-9]){_LOW}(?![a-z0-9])"
_KERNEL = r"\w*(?:fp8|fp4|int8|int4|awq|gptq|marlin)\w*(?:kernel|linear|method|scaled_?mm|gemm)\w*"
"""A name of code that computes in it, as engines write which they selected."""
_SLOWER_TOLD = 1.03
_SLOWER = 1.1
_ENGINE_SAYS = (
    r"native support for (fp8|fp4|int8)|weight-only (fp8|fp4)|not fully optimi[sz]ed yet"
    r"|may degrade performance|forcing (awq|gptq|fp8)|for faster inference"
    r"|slower than non-quantized|performance might be sub-?optimal"
    r"|dequanti[sz](e|ing|ation)|falling? back to .*(kernel|marlin|triton|dequant|torch)"
    r"|no (native|optimi[sz]ed|suitable) .*(kernel|fp8|fp4|int8)|emulat(ed|ion)"
)


def judge(window: Window) -> Verdict | None:
    """LIKELY where both precisions were measured and the lower is no faster; CERTAIN where it is
    slower and the engine says why."""
    said = _said_by_engine(window)
    compared = (
        slower_in_fewer_bits(window, said) or _compared(window) or _beside_siblings(window, said)
    )
    argument = Argument(window)
    if not compared and _is_slower_than_told(argument, window):
        return argument.verdict(Confidence.LIKELY)
    worst = compared[0] if compared else None
    if worst is None and not said:
        return None
    if worst is not None and worst.factor < _NO_GAIN:
        return None
    _cite(argument, window, compared, said)
    argument.against("queue.overload, cache.thrash: the two were compared under one load")
    if worst is not None:
        sure = worst.factor >= _SLOWER and bool(said or _is_explained(window))
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)
    argument.need("speed of the unquantized model under the same load", "which kernel serves it")
    return argument.verdict(Confidence.POSSIBLE)


def _said_by_engine(window: Window) -> list[str]:
    """Lines that tell of a precision without a kernel of its own."""
    return [
        line
        for line in window.lines_with(_ENGINE_SAYS)
        if re.search(_LOW, line, re.IGNORECASE) or "quant" in line.lower()
    ]


def _beside_siblings(window: Window, said: list[str]) -> list[Slowdown]:
    """Slower than others that serve the same, where its engine says what may be the cause."""
    siblings = sibling_slowdown(window)
    return [siblings] if said and siblings is not None and siblings.factor >= _SLOWER else []


def _is_slower_than_told(argument: Argument, window: Window) -> bool:
    """The precision was changed, and what was told of the speed before is not reached now."""
    measured = _before_told(window) if _is_of_precision(window) else None
    if measured is None or measured[0] < _SLOWER_TOLD:
        return False
    argument.says(measured[1])
    for change in window.changes_with(_LOW):
        argument.says(f"change: {change.what}")
    now = activity_of(window)
    argument.series(now.running)
    argument.series(now.kv)
    argument.against("host.bound, queue.overload: it was faster at the same batch before")
    return True


def _cite(argument: Argument, window: Window, compared: list[Slowdown], said: list[str]) -> None:
    for slow in compared[:3]:
        argument.says(slow.says)
    for line in said[-2:]:
        argument.says(line.strip()[:220])
    for change in window.changes_with(_LOW):
        argument.says(f"change: {change.what}")
    for fact in told_all(window, _LOW)[:4]:
        argument.fact(fact)
    now = activity_of(window)
    argument.series(now.running)
    argument.series(now.waiting)


def _compared(window: Window) -> list[Slowdown]:
    """Pairs of which one is of the lower precision; where keys say only before and after, a change
    has to name the precision."""
    told_twice, _ = between_modes(
        window, rf"\b({_FULL}|none|off|no)\b", rf"\b{_LOW}\b", FIRST_TOKEN
    )
    if told_twice:
        return told_twice
    pairs = slowdowns(window, base=rf"\b{_FULL}\b", other=rf"\b{_LOW}\b")
    named = [slow for slow in pairs if _names(slow, _LOW)]
    if named:
        return named
    if _is_of_precision(window) and not _has_other_load(window):
        return [slow for slow in slowdowns(window) if "ttft" not in slow.contrast.other.key]
    return []


def _has_other_load(window: Window) -> bool:
    """Fewer at once, or longer prompts: what all get together is then no measure."""
    return any(
        not 1 / _SAME_LOAD <= each.factor <= _SAME_LOAD
        for each in contrasts(
            window, _LOAD, without=r"max|limit|seats|per s|kv|cache|pool|weights|capacity"
        )
    )


_LOAD = (
    r"\b(in flight|running|concurren\w*|streams|users|batch( size)?|requests at once)\b"
    r"|\b(prompt|input|output)\b.*\btokens?\b|\bcontext\b"
)
_SAME_LOAD = 1.25


def _is_of_precision(window: Window) -> bool:
    """That a change names a precision is no figure: what it holds in memory has to have changed as
    well, or the engine or somebody's figures say in which precision it is now."""
    if not window.changes_with(_LOW_WORD):
        return False
    return (
        any(_HALVED[0] <= each.factor <= _HALVED[1] for each in contrasts(window, _WEIGHTS))
        or any(1 / _HALVED[1] <= each.factor <= 1 / _HALVED[0] for each in contrasts(window, _ROOM))
        or any(
            re.search(_LOW_WORD, f"{plain(fact.key)} {fact.raw}".lower()) for fact in window.facts
        )
        or bool(window.lines_with(_LOW_WORD))
        or bool(window.lines_with(_KERNEL))
        or _decodes_faster_since(window)
    )


def _decodes_faster_since(window: Window) -> bool:
    """Since it went from full precision to a low one a token takes less: fewer bytes are read for
    it, whatever prefill, which computes, got of it."""
    for change in window.changes_with(_LOW_WORD):
        if not re.search(rf"(?<![a-z0-9]){_FULL}(?![a-z0-9])", change.what.lower()):
            continue
        for slow in slowdowns(window, pattern=rf"(?=.*({BETWEEN_TOKENS}))"):
            pair = slow.contrast
            is_since = (
                pair.base.at <= change.at <= pair.other.at and pair.base.key == pair.other.key
            )
            if is_since and slow.factor * _SLOWER <= 1:
                return True
    return False


_HALVED = (0.2, 0.75)
"""Of the bytes: from 16 bits to 8 or 4, with what stays as it was."""
_WEIGHTS = r"\b(weights?|model|checkpoint)\b.*\b(gib|gb|mib|mb|memory|size|bytes)\b|\bweights\b"
_ROOM = r"\b(kv|cache|pool)\b.*\b(tokens|blocks|size|pool|capacity)\b"


def _before_told(window: Window) -> tuple[float, str] | None:
    """The speed of before, as it was told, against what is measured now."""
    return slower_than_told(
        window, activity_of(window).decode, rf"\b(before|baseline|without|{_FULL})\b"
    )


def _names(slow: Slowdown, pattern: str) -> bool:
    other, base = plain(slow.contrast.other.key), plain(slow.contrast.base.key)
    return bool(re.search(pattern, other)) and not re.search(rf"\b{_LOW}\b", base)


def _is_explained(window: Window) -> bool:
    """Somebody says that the lower precision is not native here."""
    return any(
        re.search(
            _ENGINE_SAYS + r"|no tensor core|not native|compute capability|ampere|turing|sm ?8\d",
            text,
            re.I,
        )
        for text in texts_of(window)
    )


PRECISION = Rule(
    id="precision-not-paying",
    mechanism=Mechanism.PRECISION_NOT_PAYING,
    judge=judge,
    needs=("speed with and without the lower precision under one load", "which kernel serves it"),
    told_apart="From a busy host or slow collectives, which also eat the gain, by kernels that are "
    "slower themselves; from overload by the same load on both.",
    remedy="Use a format that the device computes natively and a kernel that is tuned for the "
    "shapes, or go back for speed and keep it for memory only.",
    hides="Going back needs the memory again: the KV cache shrinks, and with it the batch.",
)
