"""Refusals that are told inside of a stream: its status is 200, and it holds an error alone."""

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_ERRORS = r"(?=.*\berrors?\b)(?=.*\b(streams?|answers?|responses?|sse|events?|chunks?)\b)"
_ANSWERED = (
    r"(?=.*\b(finished|answered|completed|with|streams?|answers?)\b)"
    r"(?=.*\b(tokens|text|content|answered|answers|completed|finished)\b)"
)
_SENT = r"\b(sent|offered|opened|arrived|received|requests|total|(http|status) 200)\b"
_NOT_A_COUNT = (
    r"\b(age|after|ms|rate|share|per|mean|p\d\d|limit|max|latency|time|percent|error rate)\b"
)
_QUEUE_LIMIT = r"(?=.*\b(queue\w*|waiting|pending)\b)(?=.*\b(max|limit|cap|bound|size limit)\b)"


def refused_in_streams(argument: Argument, now: Activity) -> float:
    """How many streams were opened and closed with an error alone, where with those that have
    tokens they are all that was sent and the engine's queue stands at its limit whenever it was
    read; else 0."""
    limit = _limit_of_queue(now)
    if limit is None or now.waiting is None:
        return 0.0
    failed, answered = _counts(now.window, _ERRORS), _counts(now.window, _ANSWERED, r"\berrors?\b")
    sent = _counts(now.window, _SENT, r"\berrors?\b|tokens|\b[45]\d\d\b")
    for error, refused in failed:
        for whole, all_sent in sent:
            for full, done in answered:
                if whole is full or refused + done != all_sent:
                    continue
                argument.says(f"{says(full)} + {says(error)} = {says(whole)}")
                argument.series(now.waiting, f"the queue stands at its limit ({says(limit)})")
                _cite_what_hides_them(argument, now)
                return refused
    return 0.0


def _limit_of_queue(now: Activity) -> Fact | None:
    """The limit that the queue stood at in each reading."""
    if now.waiting is None or not now.waiting.is_constant:
        return None
    for fact in told_all(now.window, _QUEUE_LIMIT):
        if number_of(fact) == now.waiting.last.value > 0:
            return fact
    return None


def _counts(window: Window, pattern: str, without: str = "") -> list[tuple[Fact, float]]:
    unwanted = f"{_NOT_A_COUNT}|{without}" if without else _NOT_A_COUNT
    return [
        (fact, value)
        for fact in told_all(window, pattern, without=unwanted)
        if (value := number_of(fact)) is not None and value > 0
    ]


def _cite_what_hides_them(argument: Argument, now: Activity) -> None:
    for fact in told_all(now.window, r"\b(http|status)\b.*\b[2-5](\d\d|xx)\b"):
        argument.fact(fact)
    for fact in told_all(now.window, rf"(?=.*\b(age|after|ms)\b){_ERRORS}"):
        argument.fact(fact, "before anything was computed for it")
    aborted = now.window.find(Signal.ABORTED)
    if aborted is not None:
        value = number(aborted.last.value)
        argument.series(aborted, f"it stays at {value} and shows none of them")
