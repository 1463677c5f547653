"""One conversation in one slot: most of a prompt was kept from turn to turn, and then nothing is.

A client that stays below its own budget drops the oldest turns once it is reached. From then on
prompts have one length and begin differently each time.
"""

from itertools import pairwise

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.sessions import NUM_SESSIONS

_KEPT = 0.8
"""Of a prompt, as long as a conversation only grows."""
_LOST = 0.05
"""Of a prompt: a template's first tokens."""
_ALIKE = 0.15
"""By which a prompt differs in length from the one before: the same conversation."""
_FEWEST_LOST = 2
_FEWEST_TOKENS = 1_000
_BETWEEN = r"\b(between|other)\b.*\b(requests?|callers?|sessions?|turns?)\b|requests? (in )?between"
_BUDGET = r"budget|history limit|client.*(limit|max|context)|compact"


def was_lost_between_turns(argument: Argument, window: Window) -> bool:
    """A slot kept most of a turn's prompt and nothing of the later ones, of that length as well,
    though nobody else asked for the slot."""
    if not _is_alone(window) or window.events_of(LogKind.FULL_REPROCESS):
        return False
    slots: dict[str, list[tuple[LogEvent, LogEvent]]] = {}
    for started, cut in _turns(window):
        slots.setdefault(started.words.get("slot", ""), []).append((started, cut))
    for turns in slots.values():
        lost = _lost(turns)
        if lost:
            _cite(argument, window, turns, lost)
            return True
    return False


def _turns(window: Window) -> list[tuple[LogEvent, LogEvent]]:
    """Each prompt, and what is kept of it: the line that follows it in its slot."""
    kinds = (LogKind.PROMPT_STARTED, LogKind.CACHE_CUT, LogKind.CACHE_RESET)
    found = []
    open_by_slot: dict[str, LogEvent] = {}
    for event in window.events_of(*kinds):
        slot = event.words.get("slot", "")
        if event.kind is LogKind.PROMPT_STARTED:
            open_by_slot[slot] = event
        elif slot in open_by_slot and open_by_slot[slot].fields.get("tokens"):
            found.append((open_by_slot.pop(slot), event))
    return found


def _share(turn: tuple[LogEvent, LogEvent]) -> float:
    return turn[1].fields.get("from", 0.0) / turn[0].fields["tokens"]


def _lost(turns: list[tuple[LogEvent, LogEvent]]) -> list[tuple[LogEvent, LogEvent]]:
    """The last turns, of which nothing was kept; empty where the one before them lost as well or
    was another conversation's."""
    place = len(turns)
    while place and _share(turns[place - 1]) <= _LOST:
        place -= 1
    lost = turns[place:]
    if not place or len(lost) < _FEWEST_LOST or _share(turns[place - 1]) < _KEPT:
        return []
    lengths = [turn[0].fields["tokens"] for turn in turns[place - 1 :]]
    alike = all(abs(a - b) <= _ALIKE * max(a, b) for a, b in pairwise(lengths[1:]))
    grown = lengths[1] >= (1 - _ALIKE) * lengths[0]
    return lost if alike and grown and min(lengths) >= _FEWEST_TOKENS else []


def _is_alone(window: Window) -> bool:
    """One session, or nobody came between its turns."""
    one, between = told_number(window, NUM_SESSIONS), told_number(window, _BETWEEN)
    return number_of(one) == 1 or number_of(between) == 0


def _cite(
    argument: Argument,
    window: Window,
    turns: list[tuple[LogEvent, LogEvent]],
    lost: list[tuple[LogEvent, LogEvent]],
) -> None:
    for started, cut in turns[-len(lost) - 1 :]:
        kept, tokens = cut.fields.get("from", 0.0), started.fields["tokens"]
        argument.says(f"{number(kept)} of {number(tokens)} tokens kept: {cut.line.strip()[:160]}")
    for event in window.events_of(LogKind.PROMPT_EVALUATED)[-2:]:
        argument.says(event.line.strip()[:160])
    for fact in (*told_all(window, NUM_SESSIONS), *told_all(window, _BETWEEN)):
        argument.fact(fact, "nobody else took the slot")
    for fact in told_all(window, _BUDGET):
        argument.fact(fact, "prompts end just below it")
