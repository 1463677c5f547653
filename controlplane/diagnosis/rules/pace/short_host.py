"""A host, or a container, that has fewer processors than its engine wants."""

import re

from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_THROTTLED = r"throttl|steal|cpu (limit|quota)|cgroup cpu|governor|powersave|nice"
_GPU = r"gpu|thermal|power|clock"


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
    used = told_number(window, r"\bcpus?\b.*\b(used|busy|usage)\b", without=r"mem|percent|pct")
    limit = told_number(window, r"\bcpus?\b.*\b(limit|quota|total|available)\b", without=r"mem")
    taken, whole = number_of(used), number_of(limit)
    if used is None or limit is None or not taken or not whole or taken > _OVER * whole:
        return False
    if taken < _ALL_CORES * whole or re.search(_GPU, plain(used.key)):
        return False
    argument.fact(used, f"of {limit.raw}: the host's processors are short")
    return True


_ALL_CORES = 0.95
_OVER = 1.1
"""Of the limit: more is a figure of another thing."""
