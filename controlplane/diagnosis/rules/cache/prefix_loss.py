"""A prefix that is shared was in the cache and is not any more."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache.hit_courses import (
    GONE,
    LOST,
    below_its_siblings,
    costs_though_there_is_room,
    fallen_to,
    finds_as_much,
    is_a_step,
    is_other_traffic,
    was_flushed,
    went_with_its_traffic,
)
from controlplane.diagnosis.rules.cache.known_shared import known_and_not_found
from controlplane.diagnosis.rules.cache.lost_between_turns import was_lost_between_turns
from controlplane.diagnosis.rules.cache.slot_memory import (
    differs_early,
    is_pinned,
    says_so,
    was_shared_and_computed,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.prefix import finds_as_many
from controlplane.diagnosis.views.told import (
    told_all,
)
from controlplane.diagnosis.window import DoubtKind, Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN_OR_PREFILL
from dataplane.engine_metrics.signal import Signal

_REASONS = (
    r"restart|redeploy|roll(ed)?.?out|upgrade|version|template|system.?prompt|date|timestamp|salt"
    r"|seed|rout(e|ing)|balanc|affinit|sticky|hash|evict|cache|block|kv|adapter|lora|tool|prefix"
    r"|replica|scal|engine|bump|flag|deploy|config|context|plugin|client|memory|enabled"
)
_FIRST = r"\bfirst (deploy|start|roll|install)"
_WHAT_CHANGED = "what was changed: template, routing, restart, cache size"
_REPROCESS = (
    r"full prompt re-?processing|cache (was )?(reset|flushed|cleared)|prefix cache.*(reset|disabled"
    r"|not supported)|reset(ting)? prefix cache|flush(ing|ed)? (the )?cache"
)


def judge(window: Window) -> Verdict | None:
    """CERTAIN where the engine says that it throws a similar prompt away; LIKELY where hits fell to
    hardly any, or fell by half after a change that can do it."""
    argument = Argument(window)
    seen = _seen_directly(argument, window)
    if seen is not None:
        return seen
    known = known_and_not_found(window)
    if known is not None:
        return known
    if finds_as_many(window):
        return None
    left = _left_of_hits(argument, window)
    if left is None or left > LOST or finds_as_much(window):
        return None
    has_reasons = _reasons(argument, window)
    _cite(argument, window)
    argument.against("cache.nothing_shared: hits were there before")
    is_others = went_with_its_traffic(argument, window) or is_other_traffic(argument, window)
    if _is_no_drift(left, window) and not is_others:
        if not has_reasons:
            argument.need(_WHAT_CHANGED)
        return argument.verdict(Confidence.LIKELY)
    argument.need(
        _WHAT_CHANGED,
        "whether the mix of callers changed",
        "evictions or block lifetime",
    )
    return argument.verdict(Confidence.POSSIBLE)


def _seen_directly(argument: Argument, window: Window) -> Verdict | None:
    """The engine, or two prompts beside each other, show that it was there and is read again."""
    for was_seen, speaks_against in _DIRECT:
        if was_seen(argument, window):
            for sentence in speaks_against:
                argument.against(sentence)
            return argument.verdict(Confidence.CERTAIN)
    return None


_DIRECT = (
    (
        says_so,
        (
            "cache.nothing_shared: the prompt was found similar to what was cached",
            "interference.prefill: the request computes its own prompt again",
        ),
    ),
    (
        was_flushed,
        (
            "cache.nothing_shared: it was found until then",
            "queue.overload: what waits is read again",
        ),
    ),
    (was_shared_and_computed, ("cache.nothing_shared: it is known to be shared",)),
    (
        was_lost_between_turns,
        (
            "cache.nothing_shared: an earlier turn found nearly all of its prompt",
            "cache.grown_contexts: prompts have stopped to grow, and nobody else takes the slot",
        ),
    ),
    (differs_early, ("cache.nothing_shared: it is one conversation that only grows",)),
)
"""Looks of which each is enough, with what speaks against its look-alikes."""


def _left_of_hits(argument: Argument, window: Window) -> float | None:
    """The share that is left of what was found before, or else of what its siblings find."""
    left = fallen_to(argument, window)
    if left is not None and left <= LOST:
        return left
    beside = below_its_siblings(argument, window)
    return left if beside is None else beside


def _is_no_drift(left: float, window: Window) -> bool:
    """Hardly any is left, or it went at once, or room was there: callers do not change like
    that."""
    return (
        left <= GONE or is_a_step(window) or is_pinned(window) or costs_though_there_is_room(window)
    )


def _reasons(argument: Argument, window: Window) -> bool:
    found = False
    for change in window.changes_with(_REASONS):
        if re.search(_FIRST, change.what, re.IGNORECASE):
            continue  # there was nothing before it that could be lost
        argument.says(f"change: {change.what}")
        found = True
    for line in window.lines_with(_REPROCESS)[-1:]:
        argument.says(line.strip())
        found = True
    for doubt in window.doubts_of(DoubtKind.COUNTER_RESET)[:1]:
        argument.says(f"restarted: {doubt.what}")
        found = True
    pattern = r"\bevict(ed|ions?)\b|restart|template|salt|rout(ing|e)\b|system prompt|cache reset"
    for fact in told_all(window, pattern)[-2:]:
        argument.fact(fact)
        found = True
    return found


def _cite(argument: Argument, window: Window) -> None:
    for signal in (Signal.PREFIX_QUERIES, Signal.PREFIX_HITS, Signal.COMPUTED_PROMPT_TOKENS):
        argument.series(window.find(signal))
    for contrast in contrasts(window, FIRST_TOKEN_OR_PREFILL)[:2]:
        argument.says(contrast.says)


PREFIX_LOSS = Rule(
    id="cache-prefix-loss",
    mechanism=Mechanism.CACHE_PREFIX_LOSS,
    judge=judge,
    needs=("prefix cache hits and queries over time, or what the engine says of a slot",),
    told_apart="From nothing shared by hits that were there before; from a rate that is merely low "
    "by its fall; from thrash by nobody thrown out; from cache usage that falls when requests "
    "end, which is no loss.",
    remedy="Undo what made the prefix differ or go: a stable template head, cache-aware routing, a "
    "cache that holds the shared part.",
    hides="A larger cache or more replicas hide a prefix that always differs; a restart "
    "warms up again and hides what emptied it.",
)
