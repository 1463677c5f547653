"""Who was killed, when, and by whom: a kill is an event of an engine's process, and no setting."""

import re
from collections.abc import Iterable, Sequence

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.rules.memory.ledger import facts_named, shortened
from controlplane.diagnosis.views.told import plain, says_no
from controlplane.diagnosis.window import Window

_KILLED = re.compile(r"oom[-_ ]?kill|out of memory.*kill|killed.*out of memory", re.IGNORECASE)
_SETTING = re.compile(
    r"\s*(enabled?|on|off|default|present|active|configured|available|unset|panic|kernel"
    r"|systemd(-oomd)?|allowed|unlimited|standard)\s*",
    re.IGNORECASE,
)
_SETTING_KEY = re.compile(r"disable|score|adj|policy|group|setting|enabled|allow", re.IGNORECASE)
_OLD = re.compile(
    r"\b\d+(\.\d+)? ?(d|days?|w|weeks?|months?|years?)\b( ago)?|yesterday"
    r"|\blast (night|week|month|year)\b",
    re.IGNORECASE,
)
_ENGINE = re.compile(
    r"python|vllm|engine|sglang|llama|tgi|text-gen|trt|triton|ray|pilothouse|server|serve|worker"
    r"|launch|torch|pt_|uvicorn|gunicorn|infer|model|ollama|lmdeploy|sched|rank|tp\d|dp\d"
    r"|cache|cicc|nvcc|ptxas|ninja|gcc|cc1|clang",
    re.IGNORECASE,
)
"""Names of processes by which engines run, keep KV and compile; a kernel writes the first 15
characters."""
_OTHERS_KEY = re.compile(
    r"side ?car|exporter|proxy|envoy|istio|agent|browser|data ?base|redis|postgres|prometheus"
    r"|grafana|fluent|log(ger|stash)|init container|neighbou?r|\bother|\bclient|gateway|router",
    re.IGNORECASE,
)
_OTHER_KILLERS = (
    r"(liveness|readiness|startup|health)[^\n]{0,20}(probe|check)[^\n]*fail|failed[^\n]*probe"
    r"|unhealthy|preempt|scal(e|ed|ing) ?(down|in)\b|drain|rollout|deploy|kubectl|by hand"
    r"|by (a |the )?(user|operator|person|admin|scheduler)|deadline exceeded|spot|walltime"
    r"|grace period|docker stop|systemctl"
)


def told_kills(window: Window) -> tuple[Fact, ...]:
    """What was told of kills for want of memory that happened to an engine."""
    return tuple(
        fact
        for fact in window.facts
        if _KILLED.search(f"{fact.key} {fact.raw}")
        and not says_no(fact)
        and not _SETTING.fullmatch(fact.raw)
        and not _SETTING_KEY.search(plain(fact.key))
        and not _OTHERS_KEY.search(plain(fact.key))
    )


def of_engines(window: Window, events: Sequence[LogEvent]) -> tuple[LogEvent, ...]:
    """Without those of a kill whose victim is none of an engine's processes."""
    victims = [event for event in events if event.words.get("process") and "pid" in event.fields]
    if not victims or any(_is_engines(window, event) for event in victims):
        return tuple(events)
    return tuple(event for event in events if event.words.get("by") != "kernel")


def _is_engines(window: Window, event: LogEvent) -> bool:
    """By its name, its id, or the limit that it ran into: a container's is of all in it."""
    if _ENGINE.search(event.words["process"]) or re.search("cgroup|MEMCG", event.line):
        return True
    pid = f"{event.fields['pid']:.0f}"
    return any(
        re.search(rf"\b{pid}\b", fact.raw) for fact in facts_named(window, r"pid|process|engine")
    )


def is_old(facts: Iterable[Fact]) -> bool:
    """Told as of days ago."""
    return any(_OLD.search(f"{plain(fact.key)} {fact.raw}") for fact in facts)


def killed_by_others(window: Window) -> tuple[str, ...]:
    """Who else may have ended it: a probe, a person, a manager that takes replicas away."""
    told = [
        fact
        for fact in facts_named(window, r"reason|message|event|cause|why|killed|ended|stopp|termin")
        if fact.value is None and re.search(_OTHER_KILLERS, fact.raw, re.IGNORECASE)
    ]
    lines = window.lines_with(_OTHER_KILLERS) if not told else ()
    return (*(says(fact) for fact in told), *(shortened(line) for line in lines[:1]))
