"""More conversations than slots: each turn throws out what the next one would have kept."""

from itertools import pairwise

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import told_all, value_of
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.sessions import NUM_SESSIONS

_FEWEST_TURNS = 3
_LITTLE_KEPT = 0.5
"""Of a prompt: what the two have in common, such as a system prompt."""
_APART = 0.1
"""Of their lengths: two conversations, and not one that grows."""
_ALIKE = 0.1
"""By which one conversation grows from turn to turn."""
_SLOTS = r"^(n )?(parallel|slots)( slots)?$"


def slots_take_turns(window: Window) -> Verdict | None:
    """LIKELY where prompts of two lengths take turns in one slot, each of which keeps only what
    they have in common and reads its own history again."""
    slots: dict[str, list[LogEvent]] = {}
    for event in window.events_of(LogKind.PROMPT_STARTED):
        if event.fields.get("tokens"):
            slots.setdefault(event.words.get("slot", ""), []).append(event)
    for slot, prompts in slots.items():
        lengths = [event.fields["tokens"] for event in prompts]
        kept = _kept(window, slot)
        if not _take_turns(lengths) or len(kept) < len(lengths):
            continue
        if max(kept) > _LITTLE_KEPT * min(lengths) or max(kept) <= 0:
            continue
        if _has_a_slot_for_each(window):
            return None
        return _verdict(window, lengths, kept)
    return None


def _kept(window: Window, slot: str) -> list[float]:
    return [
        event.fields.get("from", 0.0)
        for event in window.events_of(LogKind.CACHE_CUT, LogKind.CACHE_RESET)
        if event.words.get("slot", "") == slot
    ]


def _take_turns(lengths: list[float]) -> bool:
    """Each is unlike the one before it and like the one before that."""
    if len(lengths) < _FEWEST_TURNS:
        return False
    changes = all(abs(a - b) > _APART * max(a, b) for a, b in pairwise(lengths))
    returns = all(
        0 <= later - earlier <= _ALIKE * later
        for earlier, later in zip(lengths, lengths[2:], strict=False)
    )
    return changes and returns


def _has_a_slot_for_each(window: Window) -> bool:
    slots, many = value_of(window, _SLOTS), value_of(window, NUM_SESSIONS)
    return slots is not None and many is not None and many <= slots


def _verdict(window: Window, lengths: list[float], kept: list[float]) -> Verdict:
    argument = Argument(window)
    argument.says(
        f"prompts of {', '.join(number(each) for each in lengths)} tokens take turns in one slot, "
        f"and each keeps {', '.join(number(each) for each in kept)}"
    )
    for event in (
        *window.events_of(LogKind.SLOT_CHOSEN)[-2:],
        *window.events_of(LogKind.CACHE_CUT)[-1:],
        *window.events_of(LogKind.PROMPT_EVALUATED)[-2:],
    ):
        argument.says(event.line.strip()[:200])
    for fact in told_all(window, rf"{_SLOTS}|{NUM_SESSIONS}|common|turn|system"):
        argument.fact(fact)
    argument.against(
        "cache.prefix_loss: alone each would find its history, the other throws it out"
    )
    argument.against("cache.nothing_shared: what they have in common is kept each time")
    remedy = "A slot for each conversation, or a cache of prompts beside the slots."
    return argument.verdict(Confidence.LIKELY, detail="slots take turns", remedy=remedy)
