"""How long prompts are: the longest that is known of, and the others."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.told import numbers_in, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_PROMPT = r"^(?=.*(\b(prompts?|inputs?|context|document)\b|\b(requests?|queue)\b.*\btokens\b))"
_LONG = (
    _PROMPT + r"(?=.*\b(longest|largest|biggest|head|oversized|blocking|first|long|huge|big|stuck"
    r"|oldest|giant)\b)(?!.*\b(limit|threshold|allowed|short|s|ttft|latency|wait|age|answered"
    r"|served|completed|finished|passed|works?|fine)\b)"
)
_ANY_LONG = (
    r"^(new |request |incoming |other |second )?(prompts?|inputs?)( (arrived|tokens|length|len"
    r"|sent))*$"
)
_SEEN = (
    _PROMPT + r"(?=.*\bmax(imum)?\b)(?=.*\b(seen|observed|arrived|sent|flight|waiting|queued|queue"
    r"|yesterday|today)\b)"
)
_OTHERS = (
    r"^(?=.*\b(prompts?|inputs?|requests?)\b)(?=.*\b(others?|short|typical|usual|median|mean"
    r"|average|avg|behind|waiting|p50|p90|p95|small)\b)"
    r"(?!.*\b(output|ttft|latency|limit|longest|largest|per s|rate|hit)\b)"
)
_OF_PROMPTS = (
    r"(?=.*\b(prompts?|inputs?|documents?|requests?|books?|files?|context)\b)(?=.*\btokens?\b)"
)
_OF_LIMITS = (
    r"\b(max|limit|len|pool|cache|cached|kv|hits?|shared|common|same|previous|system|batch(ed)?"
    r"|chunk"
    r"|output|generated|answer|budget|per s|per|rate|computed|saved|new|before|after|total|allowed"
    r"|capacity|window|first|queries|since|last)\b"
)
_APART = 8.0
_FEWEST_TOKENS = 16
"""A number below it beside the word prompt is a count of prompts and not a length."""


def longest_prompt(window: Window) -> Figure | None:
    """In tokens: as it was told, else as a log line had it."""
    for pattern in (_LONG, _SEEN, _ANY_LONG):
        found = _lengths(window, pattern, most=True)
        if found is not None:
            return found
    return _counted_in(window) or _largest(window) or _logged(window)


def other_prompts(window: Window) -> Figure | None:
    """In tokens: what the rest is like."""
    return _lengths(window, _OTHERS, most=False) or _smallest(window)


def prompts_by_histogram(window: Window) -> tuple[float, float] | None:
    """Median and 99th percentile in tokens; None where no histogram has them."""
    histogram = window.find_histogram(Signal.PROMPT_LENGTH)
    if histogram is None:
        return None
    middle, most = histogram.quantile(0.5), histogram.quantile(0.99)
    return None if middle is None or most is None else (middle, most)


def _lengths(window: Window, pattern: str, *, most: bool) -> Figure | None:
    found = []
    for fact in told_all(window, pattern):
        values = [fact.value] if fact.value is not None else numbers_in(fact.raw)
        least = 1 if fact.unit is Unit.TOKENS or "tokens" in fact.key else _FEWEST_TOKENS
        lengths = [value for value in values if value >= least]
        if lengths:
            value = max(lengths) if most else min(lengths)
            found.append(Figure(value, f"{fact.key} {fact.raw}", fact))
    if not found:
        return None
    return (max if most else min)(found, key=lambda figure: figure.value)


def _sizes(window: Window) -> list[Figure]:
    """Whatever was told of tokens of prompts, whatever it is called; limits and rates are not."""
    return [
        Figure(fact.value, f"{fact.key} {fact.raw}", fact)
        for fact in told_all(window, _OF_PROMPTS, without=_OF_LIMITS)
        if fact.value is not None and fact.value >= _FEWEST_TOKENS
    ]


def _largest(window: Window) -> Figure | None:
    sizes = [
        figure
        for figure in _sizes(window)
        if figure.fact is None or not re.search(_THE_REST, plain(figure.fact.key))
    ]
    return max(sizes, key=lambda figure: figure.value, default=None)


_THE_REST = r"\b(others?|behind|rest|answered|served)\b"
"""What is known of these is not the length of the one in front."""


def _smallest(window: Window) -> Figure | None:
    """Where there are several, and they are far apart."""
    sizes = _sizes(window)
    least = min(sizes, key=lambda figure: figure.value, default=None)
    most = max(sizes, key=lambda figure: figure.value, default=None)
    return least if least and most and most.value >= _APART * least.value else None


def _counted_in(window: Window) -> Figure | None:
    """`request_b: 65535 in, 1 out`."""
    found = [
        Figure(float(tokens.replace(",", "")), f"{fact.key} {fact.raw}", fact)
        for fact in window.facts
        if fact.value is None
        for tokens in re.findall(r"(\d[\d,]*)(?: tokens?| prompt tokens?)? in\b", fact.raw)
    ]
    return max(found, key=lambda figure: figure.value, default=None)


def _logged(window: Window) -> Figure | None:
    kinds = (LogKind.PROMPT_STARTED, LogKind.PROMPT_EVALUATED, LogKind.PROMPT_TOO_LONG)
    lengths = [
        event.fields["tokens"] for event in window.events_of(*kinds) if "tokens" in event.fields
    ]
    for line in window.lines_with(_COUNTED_LINE):
        said = re.search(_COUNTED_LINE, line, re.IGNORECASE)
        if said is not None:
            lengths.append(float(said[1].replace(",", "")))
    if not lengths:
        return None
    return Figure(max(lengths), f"a prompt of {number(max(lengths))} tokens in the log")


_COUNTED_LINE = (
    r"\b(?:req\w*|cmpl\w*|prompt|seq\w*|rid)\b.*?\b(?:total|prompt|input|num|n)[ _]"
    r"(?:prompt[ _]|input[ _])?(?:tokens|len|length)\W{1,3}(\d[\d,]*)\b(?!\.\d| ?tokens/s)"
)
"""A line about one request that says how long it is."""
