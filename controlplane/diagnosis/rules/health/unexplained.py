"""Figures that nobody gathers without a reason, and of which nobody can say that they are good."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.engine_settings import SETTINGS
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.health.signs import AS_USUAL, met
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.told import number_of, plain, says_no, told_all

_BUSY_SHARE = 0.85
_ABOUT = 0.1
_ALL_FOUND = 0.9
"""Of the looked up tokens: what is asked was asked before."""
_SUSPICIOUS = (
    r"\b(cpu|browser|generator|bench\w*|script|sockets?|threads?|autoscal\w*|dashboard|alert\w*"
    r"|panel"
    r"|clocks?|offset|skew|drift|drafts?|fp8|awq|gptq|int[48]|quant\w*|transfer\w*|rdma|nic|network"
    r"|link|throttl\w*|cold start|download|disk|paging|swap|tenants?|api key|router|score|adapters?"
    r"|client|clients|sender|caller|callers|without|before|old|other|expected|same load|gap)\b"
)
_HARMLESS = r"start to ready|usual|previous|max |limit|in ?flight|card|weights"
_AT_ONCE = r"concurren\w*|in ?flight|parallel|streams|open|threads|connections"


def unexplained(now: Activity) -> list[str]:
    """Each in the words of whoever told it. What an engine says of itself is no question of
    anybody's: every page and every start line is full of settings."""
    known = {fact.key for fact in _explained(now)}
    found = []
    for fact in told_all(now.window, _SUSPICIOUS, without=_HARMLESS):
        if fact.key in known or _is_setting(fact):
            continue
        value = number_of(fact)
        is_busy = value is not None and value >= _BUSY_SHARE
        if says_no(fact) or value == 0 or (re.search(r"cpu|util", fact.key) and not is_busy):
            continue
        found.append(says(fact))
    return found


def _is_setting(fact: Fact) -> bool:
    """Of an engine's own page, start line or description; or what our own look brought."""
    return bool(fact.place) or fact.is_observed or fact.key in SETTINGS


def _explained(now: Activity) -> list[Fact]:
    """As before, as expected, as many as run, or a device that is busy with them."""
    as_before = [
        fact
        for contrast in contrasts(now.window, ".")
        if 1 / AS_USUAL <= contrast.factor <= AS_USUAL
        for fact in (contrast.base, contrast.other)
    ]
    return [*as_before, *met(now), *_as_many_as_run(now), *_that_repeat(now)]


def _as_many_as_run(now: Activity) -> list[Fact]:
    here = [late(series) for series in (now.running, now.in_flight) if series is not None]
    return [
        fact
        for fact in told_all(now.window, _AT_ONCE)
        if (value := number_of(fact)) is not None
        and any(abs(value - each) <= max(1.0, _ABOUT * each) for each in here)
    ]


def _that_repeat(now: Activity) -> list[Fact]:
    """The same prompts once more, and all of them are found in the cache."""
    rates = hit_rates(now.window)
    if rates is None or rates.last.value < _ALL_FOUND:
        return []
    return [
        fact
        for fact in now.window.facts
        if re.search(r"\b(repeat\w*|same|again|twice|identical)\b", plain(fact.key))
    ]
