"""What a log tells of single requests, each by itself, where no gauge is at hand."""

from collections.abc import Iterator

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.first_tokens import LEAST_READ, Read, read_as_told
from controlplane.diagnosis.window import Window

_SAME_PACE = 1.25
"""Times the fastest: contexts differ, and longer ones are slower by that much."""
_FEWEST_TOKENS = 16
"""Of an answer: the time of fewer is mostly that of the first step."""
_LONGER = 4.0
_AS_FAST = 0.6
"""Of the speed of a short prompt: attention over a long one costs more for each token."""
_LEAST_SPEED = 300.0
"""Tokens a second. A device reads faster; slower is a question of its own."""
_ABOUT = 0.25


def answers_keep_their_pace(argument: Argument, window: Window) -> bool:
    """Each token takes as long in one answer as in another."""
    made = [
        (event.fields["seconds"] / event.fields["tokens"], event)
        for event in window.events_of(LogKind.GENERATED)
        if event.fields.get("tokens", 0.0) >= _FEWEST_TOKENS and event.fields.get("seconds")
    ]
    if len(made) < 2 or max(made, key=_first)[0] > _SAME_PACE * min(made, key=_first)[0]:
        return False
    paces = " and ".join(f"{pace * 1000:.4g} ms" for pace, _ in (made[0], made[-1]))
    argument.says(f"{len(made)} answers at one pace: {paces} a token")
    return True


def _first(pair: tuple[float, LogEvent]) -> float:
    return pair[0]


def one_after_another(argument: Argument, now: Activity) -> bool:
    """Whoever asks is served at once: each request began when the one before had ended, or never
    more than one was in flight."""
    open_now, begun = 0, 0
    for event in now.window.events_of(LogKind.REQUEST_BEGAN, LogKind.REQUEST_ENDED, LogKind.IDLE):
        if event.kind is LogKind.REQUEST_BEGAN:
            open_now, begun = open_now + 1, begun + 1
        elif event.kind is LogKind.IDLE:
            open_now = 0
        else:
            open_now = max(0, open_now - 1)
        if open_now > 1:
            return False
    inside = now.in_flight
    if not begun and (inside is None or len(inside.readings) < 2 or inside.max > 1):
        return False
    if not begun:
        argument.series(inside, "never more than one: nothing waits")
        return True
    argument.says(f"{begun} requests, one after the other: nothing waits")
    return True


def prompts_take_their_length(argument: Argument, now: Activity) -> bool:
    """A long prompt takes as much longer as it is longer: its first token is late by what there is
    to read."""
    logged, told = set(_logged(now.window)), set(read_as_told(now.window))
    read = sorted(logged | told)
    if not read:
        return False
    longest = read[-1]
    speed = longest[0] / longest[1]
    if speed < _LEAST_SPEED:
        return False
    short = [each for each in read[:-1] if each[0] * _LONGER <= longest[0]]
    fastest = max((tokens / took for tokens, took, _ in short), default=0.0)
    if short and speed >= _AS_FAST * fastest:
        argument.says(f"{longest[2]}: {number(round(speed))} tokens/s")
        argument.says(f"{short[-1][2]}: a shorter one is read no faster")
        return True
    rate = None if now.prefill is None else now.prefill.max
    if not short and not logged and rate and abs(speed - rate) <= _ABOUT * rate:
        argument.says(f"{longest[2]}: {number(round(speed))} tokens/s, as fast as it reads")
        argument.series(now.prefill)
        return True
    return False


def _logged(window: Window) -> Iterator[Read]:
    for event in window.events_of(LogKind.PROMPT_EVALUATED):
        tokens, took = event.fields.get("tokens", 0.0), event.fields.get("seconds", 0.0)
        if tokens >= LEAST_READ and took > 0:
            yield tokens, took, event.line.strip()[:200]
