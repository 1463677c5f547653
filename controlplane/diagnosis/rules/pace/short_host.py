"""A host, or a container, that has fewer processors than its engine wants."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_THROTTLED = r"throttl|steal|cpu (limit|quota)|cgroup cpu|governor|powersave|nice"
_GPU = r"gpu|thermal|power|clock"
_NEVER = r"(?!)"


def is_host_short(argument: Argument, window: Window) -> bool:
    """It is throttled, shares its processors, or has used them up."""
    fact = told_number(window, r"throttl|steal|run ?queue", without=_OTHERS_HOST)
    value = number_of(fact)
    if (
        fact is not None
        and value is not None
        and value >= (_LEAST_SHARE if fact.unit is Unit.RATIO else 1.0)
        and not re.search(_GPU, plain(fact.key))
    ):
        argument.fact(fact, "the host's processors are short")
        return True
    for change in window.changes_with(_THROTTLED):
        if not re.search(_GPU, change.what.lower()):
            argument.says(f"change: {change.what}")
    return _is_loaded(argument, window) or _has_used_its_cores(argument, window)


_OTHERS_HOST = r"client|generator|bench|sender"
_LEAST_SHARE = 0.05
"""Of the time: less is what any shared host has."""


def _is_loaded(argument: Argument, window: Window) -> bool:
    """More want to run than there are cores."""
    load = told_number(window, r"load (avg|average)|^load ?1$", without=_OTHERS_HOST)
    cores = told_number(window, r"\b(cores|cpus|vcpus?)\b", without=r"used|busy|client|throttl")
    value, many = number_of(load), number_of(cores)
    if not value or not many or value < many:
        return False
    argument.fact(load, f"of {cores.raw if cores else ''} cores: the host's processors are short")
    return True


def _has_used_its_cores(argument: Argument, window: Window) -> bool:
    """All that its container or its machine has."""
    used, limit = _plainest(window, _USED), _plainest(window, _ALLOWED, without=_USED)
    taken, whole = number_of(used), number_of(limit)
    if used is None or limit is None or not taken or not whole or taken > _OVER * whole:
        return False
    if taken < _ALL_CORES * whole:
        return False
    argument.fact(used, f"of {limit.raw}: the host's processors are short")
    return True


def _plainest(window: Window, what: str, without: str = _NEVER) -> Fact | None:
    """Of the newest such counts of processors the one with the fewest words: `cpu_used` goes before
    `cpu_used_in_the_old_version`."""
    found = [
        fact
        for fact in told_all(window, _PROCESSORS, without=_NOT_CORES)
        if re.search(what, plain(fact.key))
        and not re.search(without, plain(fact.key))
        and fact.unit is not Unit.RATIO
        and number_of(fact) is not None
    ]
    return min(found, key=lambda fact: (-fact.at, len(plain(fact.key).split())), default=None)


_PROCESSORS = r"\b(cpus?|vcpus?|cores?)\b"
_NOT_CORES = rf"mem|ram\b|percent|pct|before|old|sm\b|tensor cores?|time|{_OTHERS_HOST}|{_GPU}"
_USED = r"\b(used|busy|usage|use|using|consum\w*|taken)\b"
_ALLOWED = (
    r"^(num )?(cores|v?cpus)( (in|of|on|per)( the| a| its)? \w+)?$|^(\w+ )?(cores|v?cpus)$"
    r"|\b(limit|quota|total|available|allowed|allotted|allocat\w*|assigned|max|granted)\b"
)
_ALL_CORES = 0.95
_OVER = 1.1
"""Of the limit: more is a figure of another thing."""
