"""Who stands first in the queue and who behind, in tokens, as somebody told.

People write the queue as a list (`waiting_prompt_tokens_in_order: [16384, 1024]`), its head and the
rest apart (`queue_head_tokens: 32000`, `short_prompt_tokens: 1000`), or the length in the key of a
count (`prompts_behind_it_of_2k: 11`).
"""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_QUEUE = r"\b(queue|queued|waiting|line|pending)\b"
_SIZED = r"\b(tokens|lengths?|len|sizes?)\b"
_HEAD = rf"^(?=.*\b(head|first|next|oldest|front)\b)(?=.*{_QUEUE})(?=.*{_SIZED})"
_BEHIND = r"\b(behind|short|small|others?|rest)\b"
_NO_LENGTH = r"\b(ttft|latency|output|max|limit|running|served|finished|answered|rate|per)\b"
_IN_KEY = re.compile(r"\b(?:of|with) (\d+)(k?)\b")
_FEWEST_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """Tokens of prompts that wait."""

    head: Figure
    behind: Figure
    """The shortest that is known of."""


def queue_order(window: Window) -> QueueOrder | None:
    """None where either is unknown."""
    return _listed(window) or _told_apart(window)


def _listed(window: Window) -> QueueOrder | None:
    for fact in reversed(told_all(window, rf"(?=.*{_QUEUE})(?=.*{_SIZED})", without=_NO_LENGTH)):
        members = _members(window, fact) if fact.part is None else []
        if len(members) < 2:
            continue
        head, rest = members[0], min(members[1:], key=lambda each: each.value or 0.0)
        return QueueOrder(
            head=Figure(head.value or 0.0, says(head), head),
            behind=Figure(rest.value or 0.0, says(rest), rest),
        )
    return None


def _members(window: Window, listed: Fact) -> list[Fact]:
    """In the order of the list; none where it is a table of names."""
    parts = [
        fact
        for fact in window.facts
        if fact.at == listed.at and fact.part and fact.key == f"{listed.key}.{fact.part}"
    ]
    names = [fact.part for fact in parts]
    is_list = names == [str(place) for place in range(len(parts))]
    is_long = all((fact.value or 0.0) >= _FEWEST_TOKENS for fact in parts)
    return parts if is_list and is_long else []


def _told_apart(window: Window) -> QueueOrder | None:
    heads = [
        Figure(value, says(fact), fact)
        for fact in told_all(window, _HEAD, without=rf"{_NO_LENGTH}|{_BEHIND}")
        if (value := number_of(fact)) is not None and value >= _FEWEST_TOKENS
    ]
    behind = [
        length
        for fact in told_all(window, _BEHIND, without=_NO_LENGTH)
        if (length := length_of_those(fact)) is not None
    ]
    if not heads or not behind:
        return None
    return QueueOrder(head=heads[-1], behind=min(behind, key=lambda figure: figure.value))


def length_of_those(fact: Fact) -> Figure | None:
    """Tokens of each: the value, or what the key of their number says."""
    in_key = _IN_KEY.search(plain(fact.key))
    if in_key is not None:
        return Figure(float(in_key[1]) * (1000 if in_key[2] else 1), says(fact), fact)
    value = number_of(fact)
    is_length = fact.unit is Unit.TOKENS or re.search(_SIZED, plain(fact.key))
    return Figure(value, says(fact), fact) if is_length and value else None
