"""A long prompt that holds short ones up, by what a log or a caller tells of single requests.

A server with slots logs how far each prompt is and when the next begins; a caller may know what a
short prompt takes behind the long one and what it takes alone. Neither needs a gauge.
"""

import itertools
import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.prompts import longest_prompt, other_prompts
from controlplane.diagnosis.views.told import number_of, numbers_in, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_LONGER = 8
"""Times the short ones."""
_LATER = 2.0
"""Times what a short prompt takes alone."""
_LEAST_SECONDS = 1.0
_NEARLY_DONE = 0.8
_MANY_TOKENS = 4_000
_FIRST_TOKEN = r"\b(ttft|first (token|byte|answer))\b"
_SHORT = r"\b(short|small|tiny|one token|chat|others?|interactive|behind|probe)\b"
_ALONE = (
    r"\b(alone|idle|unloaded|without|first in line|ahead|in front|priority|prioriti\w+|let"
    r"|skipped|empty|before|usual|normal|baseline|quiet)\b"
)
_IN_FRONT = (
    r"\b(ahead|before it|before them|in front|queued before|prefilling|being prefilled|in prefill"
    r"|prefill at once|head|blocking|behind)\b"
)


def waits_for_slot_of_long(argument: Argument, window: Window) -> bool:
    """One task's prompt is read to its end before those that came meanwhile begin theirs."""
    progress = [event for event in window.events_of(LogKind.PROMPT_PROGRESS) if _task(event)]
    started = [
        event for event in window.events_of(LogKind.PROMPT_STARTED) if event.fields.get("tokens")
    ]
    for task in dict.fromkeys(_task(event) for event in progress):
        mine = [event for event in progress if _task(event) == task]
        long = next((event for event in started if _task(event) == task), None)
        if long is None or len(mine) < 2:
            continue
        if _fills_each_batch(argument, window, long, mine):
            return True
        held = _held_to_its_end(window, long, mine[-1], started)
        if held:
            _cite_held(argument, window, long, mine, held)
            return True
    return False


def _held_to_its_end(
    window: Window, long: LogEvent, end: LogEvent, started: list[LogEvent]
) -> list[LogEvent]:
    """Short prompts that came while the long one was read, and began after its end."""
    if end.fields.get("progress", 0.0) < _NEARLY_DONE:
        return []
    order = _order(window)
    came = _launched_between(window, long, end)
    return [
        event
        for event in started
        if _task(event) in came
        and order[id(event)] > order[id(end)]
        and event.fields["tokens"] * _LONGER <= long.fields["tokens"]
    ]


def _cite_held(
    argument: Argument,
    window: Window,
    long: LogEvent,
    mine: list[LogEvent],
    held: list[LogEvent],
) -> None:
    for event in (long, mine[0], mine[-1]):
        argument.says(event.line.strip())
    tokens = ", ".join(number(event.fields["tokens"]) for event in held)
    argument.says(
        f"prompts of {tokens} tokens came meanwhile and begin only after it "
        f"({number(long.fields['tokens'])} tokens)"
    )
    for fact in told_all(window, r"n ?u?batch$|batched tokens|chunk"):
        argument.fact(fact, "what a batch takes")


def _order(window: Window) -> dict[int, int]:
    """Places of the events, by their identity: two may be equal."""
    return {id(event): place for place, event in enumerate(window.events)}


def _launched_between(window: Window, first: LogEvent, last: LogEvent) -> set[str]:
    """Tasks that came after one event and before another."""
    order = _order(window)
    return {
        _task(event)
        for event in window.events_of(LogKind.REQUEST_BEGAN)
        if order[id(first)] < order[id(event)] < order[id(last)]
    }


def _fills_each_batch(
    argument: Argument, window: Window, long: LogEvent, mine: list[LogEvent]
) -> bool:
    """While it is read a batch at a time, others were launched and not a token of theirs is."""
    batch = number_of(told_number(window, r"n ?u?batch$"))
    others = other_prompts(window)
    came = _launched_between(window, long, mine[-1]) - {_task(long)}
    held = sorted(came - _tasks_read(window))
    if not held or not batch or others is None or not _takes_whole_batches(mine, batch):
        return False
    if others.value * _LONGER > long.fields["tokens"] or others.value > batch:
        return False
    for event in (long, mine[0], mine[-1]):
        argument.says(event.line.strip())
    argument.says(
        f"it takes all {number(batch)} tokens of each batch; {len(held)} tasks were launched "
        f"meanwhile ({', '.join(held)}), and nothing of theirs is read"
    )
    if others.fact is not None:
        argument.fact(others.fact, "they are short")
    for fact in told_all(window, r"first (token|byte)", without=r"\b(s|ms)$"):
        argument.fact(fact)
    return True


def _tasks_read(window: Window) -> set[str]:
    """Of whose prompts at least a part was read."""
    kinds = (LogKind.PROMPT_STARTED, LogKind.PROMPT_PROGRESS, LogKind.PROMPT_EVALUATED)
    return {_task(event) for event in window.events_of(*kinds)}


def _takes_whole_batches(progress: list[LogEvent], batch: float) -> bool:
    """From one line about the prompt to the next it took all that a batch holds."""
    steps = [
        later.fields.get("tokens", 0.0) - earlier.fields.get("tokens", 0.0)
        for earlier, later in itertools.pairwise(progress)
    ]
    return len(steps) >= _FEWEST_STEPS and all(step >= batch for step in steps)


_FEWEST_STEPS = 2


def _task(event: LogEvent) -> str:
    return event.words.get("task", "")


def is_late_behind_long(argument: Argument, window: Window) -> bool:
    """A short prompt takes far longer behind the long one than alone."""
    alone, behind = _two_waits(window)
    if alone is None or behind is None:
        return False
    usual, late = number_of(alone), number_of(behind)
    if usual is None or late is None or late < _LATER * usual or late - usual < _least(behind):
        return False
    in_front = _long_in_front(window)
    longest = longest_prompt(window)
    is_long = longest is not None and longest.value >= _MANY_TOKENS
    if not in_front and not is_long:
        return False
    argument.fact(behind, "a short prompt")
    argument.fact(alone, "the same, alone or let ahead")
    for fact in in_front:
        argument.fact(fact, "in front of it")
    if is_long and longest is not None and longest.fact not in in_front:
        argument.says(f"{longest.says}: a long prompt")
    for fact in told_all(window, r"\b(prefill at once|order|policy|short prompt)\b"):
        argument.fact(fact)
    argument.fact(told_number(window, r"\barriv\w*\b"))
    return True


def _least(fact: Fact) -> float:
    return _LEAST_SECONDS * (1000.0 if fact.unit is None and "ms" in fact.key else 1.0)


def _two_waits(window: Window) -> tuple[Fact | None, Fact | None]:
    waits = [
        fact
        for fact in told_all(window, _FIRST_TOKEN, without=r"\blong\b|limit|slo|target")
        if number_of(fact) is not None and fact.unit in (Unit.SECONDS, None)
    ]
    alone = [fact for fact in waits if re.search(_ALONE, plain(fact.key))]
    behind = [fact for fact in waits if fact not in alone and re.search(_SHORT, plain(fact.key))]
    return (alone[-1] if alone else None, behind[-1] if behind else None)


def _long_in_front(window: Window) -> list[Fact]:
    """Facts that tell of much in front of a short prompt."""
    return [
        fact
        for fact in told_all(window, _IN_FRONT, without=_FIRST_TOKEN)
        if any(value >= _MANY_TOKENS for value in numbers_in(fact.raw))
        or re.search(r"\b(long|large|huge|document)\b", fact.raw.lower())
    ]
