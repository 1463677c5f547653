"""What a server with slots says of the prompt that a slot holds, and reads all the same."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_no,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.sessions import SESSIONS

_HARDLY_ANY = 0.25
"""Of the rate before: hardly anything is left, which traffic alone does not do within a window."""
LOST = 0.6
"""Of the rate before; what chats and batches vary by chance is less."""
_SIMILAR = 0.5
"""Of a prompt that a slot held already."""
_COMPUTED = 0.8
"""Of that prompt, computed all the same."""
_ONE_TURN = 0.95
"""Of it: a turn adds little. Prompts of many callers are alike in length by chance."""
FEWEST_TOKENS = 64
_DROPPED = (
    r"cache size limit reached|removing oldest|evict(ed|ing)|purging slot|erased? .*(slot|cache"
    r"|prompt)"
    r"|saving prompt .*total state size|(prefix|prompt|radix) cache .*(dropped|discarded|full)"
)
_SHARED_TOKENS = r"(shared|common|same|identical|previous|unchanged)\b.*(tokens|prefix|turn|len)"


def says_so(argument: Argument, window: Window) -> bool:
    """Engines that keep a slot or a tree tell what they found, and what they compute all the
    same."""
    chosen = [
        event
        for event in window.events_of(LogKind.SLOT_CHOSEN)
        if event.fields.get("similarity", 0.0) >= _SIMILAR
    ]
    thrown = window.events_of(LogKind.FULL_REPROCESS)
    computed = window.events_of(LogKind.PROMPT_EVALUATED)
    if thrown:
        if chosen:
            argument.says(
                f"similarity {number(chosen[-1].fields['similarity'])} to the cached prompt: "
                f"{chosen[-1].line.strip()}"
            )
        argument.says(thrown[-1].line.strip())
        for line in window.lines_with(r"memory_seq_rm|kv_cache_seq_rm|cache_tokens")[-1:]:
            argument.says(line.strip())
        _cite_computed(argument, computed)
        return True
    return _is_computed_again(argument, window, chosen, computed)


def _is_computed_again(
    argument: Argument,
    window: Window,
    chosen: list[LogEvent],
    computed: tuple[LogEvent, ...],
) -> bool:
    """A slot that holds most of the prompt, and nearly all of it evaluated."""
    lengths = [
        event.fields["tokens"]
        for event in window.events_of(LogKind.PROMPT_STARTED)
        if event.fields.get("tokens", 0.0) >= FEWEST_TOKENS
    ]
    evaluated = [event.fields.get("tokens", 0.0) for event in computed]
    if not chosen or not lengths or not evaluated or evaluated[-1] < _COMPUTED * lengths[-1]:
        return False
    argument.says(
        f"similarity {number(chosen[-1].fields['similarity'])} to the cached prompt, and yet "
        f"{number(evaluated[-1])} of {number(lengths[-1])} tokens were evaluated"
    )
    _cite_computed(argument, computed)
    return True


def was_shared_and_computed(argument: Argument, window: Window) -> bool:
    """Most of the prompt is known to be that of the turn before, the engine dropped it, and it was
    computed whole."""
    evaluated = [
        event for event in window.events_of(LogKind.PROMPT_EVALUATED) if event.fields.get("tokens")
    ]
    dropped = window.lines_with(_DROPPED)
    if not evaluated:
        return False
    tokens = max(event.fields["tokens"] for event in evaluated)
    shared = told_number(window, _SHARED_TOKENS, without=r"hit|rate|share of|after")
    known = number_of(shared)
    saved = [
        event.fields["tokens"]
        for event in window.events_of(LogKind.HOST_STATE_SAVED)
        if event.fields.get("tokens")
    ]
    is_shared = known is not None and known >= _SIMILAR * tokens
    is_alone = len(evaluated) == 1 and bool(dropped)
    is_saved = is_alone and any(_ONE_TURN * tokens <= each <= tokens for each in saved)
    if tokens < FEWEST_TOKENS or not (is_shared or is_saved):
        return False
    if is_shared and known is not None and tokens < _COMPUTED * known:
        return False
    for line in dropped[-2:]:
        argument.says(line.strip()[:200])
    argument.fact(shared, "there a turn ago")
    for line in window.lines_with(r"memory_seq_rm|kv cache rm")[-1:]:
        argument.says(line.strip())
    _cite_computed(argument, tuple(evaluated))
    for fact in told_all(window, r"cache ram|cache (size|limit)|conversations|slots"):
        argument.fact(fact)
    return bool(dropped) or is_shared


def is_pinned(window: Window) -> bool:
    """Turn after turn the slot keeps the prompt up to the same token, and prompts are much longer:
    what stands there is written anew each time."""
    cuts = [
        event.fields["from"]
        for event in window.events_of(LogKind.CACHE_CUT)
        if event.fields.get("from", 0.0) >= FEWEST_TOKENS
    ]
    prompts = [_tokens(event) for event in window.events_of(LogKind.PROMPT_STARTED)]
    if len(cuts) < 2 or len(set(cuts)) > 1 or len(prompts) < 2 or len(set(prompts)) < 2:
        return False
    return cuts[0] <= LOST * min(prompts)


def differs_early(argument: Argument, window: Window) -> bool:
    """A conversation that only grows, of which the slot keeps little: something near its start was
    written anew."""
    ended = [event for event in window.events_of(LogKind.REQUEST_ENDED) if _tokens(event)]
    started = [event for event in window.events_of(LogKind.PROMPT_STARTED) if _tokens(event)]
    cuts = [event for event in window.events_of(LogKind.CACHE_CUT) if "from" in event.fields]
    one = told_number(window, rf"^{SESSIONS}$")
    grows = _grows(window)
    if not ended or not started or not cuts or not (grows or number_of(one) == 1):
        return False
    held, wanted, kept = _tokens(ended[-1]), _tokens(started[-1]), cuts[-1].fields["from"]
    if wanted < _COMPUTED * held or kept > _HARDLY_ANY * held:
        return False
    argument.says(ended[-1].line.strip())
    argument.says(
        f"only {number(kept)} of {number(wanted)} tokens match the {number(held)} that were there"
    )
    argument.says(cuts[-1].line.strip())
    for line in window.lines_with(r"\bsim = ")[-1:]:
        argument.says(line.strip())
    for fact in (one, *grows):
        argument.fact(fact)
    differs = told_number(
        window, r"first (difference|mismatch|different|differing)|diverge|differs (at|from)"
    )
    argument.fact(differs, "near its start")
    for fact in told_all(window, r"what (differs|changes|changed)"):
        argument.fact(fact)
    _cite_computed(argument, window.events_of(LogKind.PROMPT_EVALUATED))
    return True


def _grows(window: Window) -> list[Fact]:
    """Somebody says that each prompt is the one before and more."""
    return [
        fact
        for fact in window.facts
        if re.search(_GROWS, f"{plain(fact.key)} {fact.raw.lower()}") and not says_no(fact)
    ]


def _tokens(event: LogEvent) -> float:
    return event.fields.get("tokens", 0.0)


_GROWS = (
    r"\b(grows|growing|appended|append only|unchanged|same (session|conversation|history|chat)"
    r"|history (is )?(kept|the same|unchanged))\b"
)


def _cite_computed(argument: Argument, computed: tuple[LogEvent, ...]) -> None:
    if not computed:
        return
    fields = computed[-1].fields
    tokens, seconds = fields.get("tokens"), fields.get("seconds")
    if tokens is not None and seconds is not None:
        argument.says(
            f"{number(tokens)} tokens evaluated again, {seconds * 1000:.2f} ms: "
            f"{computed[-1].line.strip()}"
        )
