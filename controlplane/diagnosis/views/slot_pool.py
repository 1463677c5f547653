"""Slots that share one pool of context, each of which was promised all of it."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.told import numbers_in, says_yes, told_all, value_of
from controlplane.diagnosis.views.told import told as told_fact
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.lines import NO_ROOM_IN_SLOTS

_UNIFIED = r"kv_unified = '?(true|1)"
_ROOM_LEFT = 0.7
"""Of the pool, that prompts took at most when they were let in."""
_FITS = 0.02


def slot_pool_size(window: Window) -> float | None:
    """Tokens that all slots share, as it was told; where one pool is known to be of all, what each
    of them was promised is that pool."""
    told = value_of(window, _SLOT_POOL)
    is_one = bool(window.lines_with(_UNIFIED)) or says_yes(told_fact(window, _ONE_POOL))
    return told if told is not None or not is_one else value_of(window, _OF_A_SLOT)


def _started_and_not_ended(window: Window) -> dict[str, LogEvent]:
    """By slot the last prompt that was let in; none that had ended before there was no room."""
    full = window.events_of(LogKind.NO_ROOM, LogKind.OUT_OF_MEMORY)
    until = full[0].index if full else len(window.lines)
    prompts: dict[str, LogEvent] = {}
    for event in window.events_of(LogKind.PROMPT_STARTED, LogKind.REQUEST_ENDED):
        slot = event.words.get("slot", "")
        if event.kind is LogKind.REQUEST_ENDED:
            if event.index < until:
                prompts.pop(slot, None)
        elif slot and event.fields.get("tokens"):
            prompts[slot] = event
    return prompts


_SLOT_POOL = r"^(n )?(ctx|context)( size| tokens)?$|kv (pool )?tokens"
"""Of llama.cpp: what all of its slots share."""
_ONE_POOL = r"kv unified|unified kv"
_OF_A_SLOT = r"^n ctx (slot|per seq)$"


def held_by_released(window: Window) -> tuple[float, ...]:
    """Tokens of each slot as it was when it ended after none of them found room; nothing of one
    slot alone."""
    full = window.events_of(LogKind.NO_ROOM, LogKind.OUT_OF_MEMORY)
    if not full:
        return ()
    held = {
        event.words.get("slot", ""): event.fields["tokens"]
        for event in window.events_of(LogKind.REQUEST_ENDED)
        if event.index > full[0].index and event.fields.get("tokens")
    }
    return tuple(held.values()) if len(held) > 1 else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgrown:
    """A pool that what was let in has outgrown."""

    pool: float
    """Tokens."""
    admitted: tuple[float, ...]
    """Tokens of the prompts, when each was let in."""
    says: tuple[str, ...]


def outgrown_pool(window: Window) -> Outgrown | None:
    """None where it is not known of several slots what they were let in with, or where that alone
    nearly filled the pool."""
    exceeded = window.lines_with(NO_ROOM_IN_SLOTS)
    prompts = _started_and_not_ended(window)
    if not exceeded or len(prompts) < 2:
        return None
    promised = max(event.fields.get("context", 0.0) for event in prompts.values())
    pool = value_of(window, _SLOT_POOL) or promised
    is_shared = pool <= promised or bool(window.lines_with(_UNIFIED))
    admitted = tuple(event.fields["tokens"] for event in prompts.values())
    if pool <= 0 or not is_shared or sum(admitted) > _ROOM_LEFT * pool:
        return None
    sentences = [
        f"{' + '.join(number(each) for each in admitted)} = {number(sum(admitted))} tokens when "
        f"they were let in, of a pool of {number(pool)}",
        f"each of {len(prompts)} slots was promised {number(promised)}",
        *(line.strip()[:160] for line in exceeded[-3:]),
    ]
    for fact in told_all(window, r"tokens|generated|max tokens|completed|errors"):
        sizes = numbers_in(re.sub(r"[+,/]", " ", fact.raw)) if fact.value is None else ()
        if len(sizes) > 1 and abs(sum(sizes) - pool) <= _FITS * pool:
            sentences.append(f"{fact.key} {fact.raw} = {number(sum(sizes))}: all of it")
        else:
            sentences.append(f"{fact.key} {fact.raw}")
    return Outgrown(pool=pool, admitted=admitted, says=tuple(sentences))
