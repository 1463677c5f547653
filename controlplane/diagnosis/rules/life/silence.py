"""For how long nothing came out of an engine, as somebody tells or a log shows."""

import re

from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.figure import Figure, figure_of
from controlplane.diagnosis.views.told import is_time, number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import ANSWERED
from dataplane.engine_metrics.signal import Signal

LEAST_SECONDS = 10.0
"""Without a token. A step takes well under a second; a chunk of a long prompt some seconds."""
LONG_SECONDS = 60.0
"""No chunk of a prefill takes a minute."""
_SILENT = (
    r"(last|newest)( \w+)? (chunk|token|output|step|batch|iteration|line)"
    r"|without (an? )?(token|answer|progress|output)"
    r"|no (token|progress|answer|output)|since (the )?last|stalled|stuck|silent|frozen|idle step"
)
_NOTHING_LATELY = (
    r"\b(tokens?|completions?|completed|finished|answers?|outputs?)\b.*\b(last|past|minute|lately)\b"
    r"|\b(last|past) .*\b(tokens?|completions?|completed|finished|answers?)\b"
    r"|\b(tokens?|completions?|completed|finished|answers?|outputs?) (since( \d+)+$|per min)"
    r"|\b(generation|decode|decoded|output|generated)( tokens?)? rate\b"
    r"|^(tok|tokens|generated tokens) per s$|^(decode|generation) (tokens per s|throughput)$"
)
_COUNTED = (
    r"^(output |generated )?tokens?( out| generated| served)? total$|^(total )?generated tokens$"
    r"|^(output|generated|generation|decoded|predicted) tokens( total)?$"
    r"|^tokens (generated|served|out)( so far)?$"
)


def silence(window: Window) -> Figure | None:
    """For how long, as somebody says, nothing came; None below what a step may take."""
    nothing = told_number(window, _NOTHING_LATELY, without=_NOT_NOW)
    if nothing is not None and number_of(nothing) == 0:
        seconds = nothing.over_seconds or max(LONG_SECONDS, window.end - window.start)
        return figure_of(nothing, seconds)
    said = _said(window)
    if said is not None:
        return said
    counted = course_of(window, Signal.GENERATION_TOKENS, _COUNTED)
    if counted is not None and counted.is_constant and counted.span_seconds >= LEAST_SECONDS:
        sentence = f"{counted.origin.name} {counted.last.raw} for {counted.span_seconds:g} s"
        return Figure(counted.span_seconds, sentence)
    told_facts = told_all(window, _SILENT, without=r"limit|timeout|threshold|client|p\d\d")
    fact = next((each for each in reversed(told_facts) if number_of(each) is not None), None)
    value = number_of(fact)
    if fact is None or value is None or not is_time(fact) or value < LEAST_SECONDS:
        return None
    return figure_of(fact, value)


_NOT_NOW = (
    r"in ?flight|error|reject|per request|yesterday|before|usual|normal|baseline|expected|client"
)
_SAID = re.compile(r"\bno (tokens?|chunks?|output|progress|bytes?)\b", re.IGNORECASE)


def _said(window: Window) -> Figure | None:
    """`stream: no token for 540 s`."""
    for fact in reversed(window.facts):
        if fact.value is None and _SAID.search(fact.raw):
            times = durations_in(fact.raw)
            if len(times) == 1 and times[0][1] >= LEAST_SECONDS:
                return Figure(times[0][1], f"{fact.key} {fact.raw}", fact)
    return None


def is_of_steps(silent: Figure) -> bool:
    """That no answer ended says little: long ones are computed meanwhile."""
    key = "" if silent.fact is None else plain(silent.fact.key)
    return not re.search(ANSWERED, key) or re.search(_STEPS, key) is not None


_STEPS = r"\b(tokens?|tok|chunks?|steps?|output|batch|iteration|line|log)\b"


def unfinished_task(window: Window) -> str:
    """A request that a slot of llama.cpp began and, as far as the log goes, never ended."""
    open_tasks: dict[str, str] = {}
    for line in window.lines_with(r"slot +(launch_slot_|release|print_timing)"):
        task = re.search(r"task (\d+)", line)
        if task is None:
            continue
        if "launch_slot_" in line:
            open_tasks[task[1]] = " ".join(line.split())
        else:
            open_tasks.pop(task[1], None)
    return next(iter(reversed(open_tasks.values())), "")
