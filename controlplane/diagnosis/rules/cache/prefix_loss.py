"""A prefix that is shared was in the cache and is not any more."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import rates
from controlplane.diagnosis.views.prefix import finds_as_many, hit_rates
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_no,
    share_of,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import DoubtKind, Window
from dataplane.engine_metrics.signal import Signal

_WAS = 0.2
"""A hit rate that somebody would miss."""
_LOST = 0.6
"""Of the rate before; what chats and batches vary by chance is less."""
_GONE = 0.25
"""Of the rate before: hardly anything is left, which traffic alone does not do within a window."""
_AS_MUCH = 0.7
_MANY_TOKENS = 10_000
_SIMILAR = 0.5
"""Of a prompt that a slot held already."""
_COMPUTED = 0.8
"""Of that prompt, computed all the same."""
_FEWEST_TOKENS = 64
_REASONS = (
    r"restart|redeploy|roll(ed)?.?out|upgrade|version|template|system.?prompt|date|timestamp|salt"
    r"|seed|rout(e|ing)|balanc|affinit|sticky|hash|evict|cache|block|kv|adapter|lora|tool|prefix"
    r"|replica|scal|engine|bump|flag|deploy|config|context|plugin|client|memory|enabled"
)
_DROPPED = (
    r"cache size limit reached|removing oldest|evict(ed|ing)|purging slot|erased? .*(slot|cache"
    r"|prompt)"
    r"|saving prompt .*total state size|(prefix|prompt|radix) cache .*(dropped|discarded|full)"
)
_SHARED_TOKENS = r"(shared|common|same|identical|previous|unchanged)\b.*(tokens|prefix|turn|len)"
_FLUSHED = r"cache (was )?(flushed|cleared|reset)|flush(ed|ing) (the )?(radix |prefix |kv )?cache"
_REPROCESS = (
    r"full prompt re-?processing|cache (was )?(reset|flushed|cleared)|prefix cache.*(reset|disabled"
    r"|not supported)|reset(ting)? prefix cache|flush(ing|ed)? (the )?cache"
)


def judge(window: Window) -> Verdict | None:
    """CERTAIN where the engine says that it throws a similar prompt away; LIKELY where hits fell to
    hardly any, or fell by half after a change that can do it."""
    argument = Argument(window)
    if _says_so(argument, window):
        argument.against("cache.nothing_shared: the prompt was found similar to what was cached")
        argument.against("interference.prefill: the request computes its own prompt again")
        return argument.verdict(Confidence.CERTAIN)
    if _was_flushed(argument, window):
        argument.against("cache.nothing_shared: it was found until then")
        argument.against("queue.overload: what waits is read again")
        return argument.verdict(Confidence.CERTAIN)
    if _was_shared_and_computed(argument, window):
        argument.against("cache.nothing_shared: it is known to be shared")
        return argument.verdict(Confidence.CERTAIN)
    if _differs_early(argument, window):
        argument.against("cache.nothing_shared: it is one conversation that only grows")
        return argument.verdict(Confidence.CERTAIN)
    if finds_as_many(window):
        return None
    fallen_to = _fallen_to(argument, window)
    if fallen_to is None or fallen_to > _LOST:
        beside = _below_its_siblings(argument, window)
        fallen_to = fallen_to if beside is None else beside
    if fallen_to is None or fallen_to > _LOST or _finds_as_much(window):
        return None
    reasons = _reasons(argument, window)
    _cite(argument, window)
    argument.against("cache.nothing_shared: hits were there before")
    if fallen_to <= _GONE or _is_a_step(window) or _is_pinned(window):
        if not reasons:
            argument.need("what was changed: template, routing, restart, cache size")
        return argument.verdict(Confidence.LIKELY)
    argument.need(
        "what was changed: template, routing, restart, cache size",
        "whether the mix of callers changed",
        "evictions or block lifetime",
    )
    return argument.verdict(Confidence.POSSIBLE)


def _says_so(argument: Argument, window: Window) -> bool:
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
        if event.fields.get("tokens", 0.0) >= _FEWEST_TOKENS
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


def _was_flushed(argument: Argument, window: Window) -> bool:
    """The log says that the cache was emptied, and hits that were there before are not after."""
    flushed = window.lines_with(_FLUSHED)
    rates_seen = hit_rates(window)
    if not flushed or rates_seen is None or len(rates_seen.readings) < 2:
        return False
    if rates_seen.first.value < _WAS or late(rates_seen) > _LOST * rates_seen.first.value:
        return False
    argument.says(flushed[-1].strip()[:160])
    argument.series(rates_seen)
    for signal in (Signal.BATCH_CACHED_TOKENS, Signal.BATCH_COMPUTED_TOKENS):
        argument.series(window.find(signal))
    for change in window.changes:
        argument.says(f"change: {change.what}")
    return True


def _was_shared_and_computed(argument: Argument, window: Window) -> bool:
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
    is_saved = bool(dropped) and any(_COMPUTED * tokens <= each <= tokens for each in saved)
    if tokens < _FEWEST_TOKENS or not (is_shared or is_saved):
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


def _is_a_step(window: Window) -> bool:
    """All of the last third is below half of all of the first: no mix of callers falls like that
    and stays."""
    seen = hit_rates(window)
    if seen is None or len(seen.readings) < _FEWEST_READINGS:
        return False
    third = len(seen.values) // 3
    return max(seen.values[-third:]) <= _HALF * min(seen.values[:third])


_FEWEST_READINGS = 6
_HALF = 0.5


def _is_pinned(window: Window) -> bool:
    """Turn after turn the slot keeps the prompt up to the same token, and prompts are much longer:
    what stands there is written anew each time."""
    cuts = [
        event.fields["from"]
        for event in window.events_of(LogKind.CACHE_CUT)
        if event.fields.get("from", 0.0) >= _FEWEST_TOKENS
    ]
    prompts = [_tokens(event) for event in window.events_of(LogKind.PROMPT_STARTED)]
    if len(cuts) < 2 or len(set(cuts)) > 1 or len(prompts) < 2 or len(set(prompts)) < 2:
        return False
    return cuts[0] <= _LOST * min(prompts)


def _differs_early(argument: Argument, window: Window) -> bool:
    """A conversation that only grows, of which the slot keeps little: something near its start was
    written anew."""
    ended = [event for event in window.events_of(LogKind.REQUEST_ENDED) if _tokens(event)]
    started = [event for event in window.events_of(LogKind.PROMPT_STARTED) if _tokens(event)]
    cuts = [event for event in window.events_of(LogKind.CACHE_CUT) if "from" in event.fields]
    one = told_number(window, r"^(sessions?|conversations?|clients?|users?|agents?|chats?)$")
    grows = [
        fact
        for fact in window.facts
        if re.search(_GROWS, f"{plain(fact.key)} {fact.raw.lower()}") and not says_no(fact)
    ]
    differs = told_number(
        window, r"first (difference|mismatch|different|differing)|diverge|differs (at|from)"
    )
    if not ended or not started or not cuts or not (grows or number_of(one) == 1):
        return False
    held, wanted, kept = _tokens(ended[-1]), _tokens(started[-1]), cuts[-1].fields["from"]
    if wanted < _COMPUTED * held or kept > _GONE * held:
        return False
    argument.says(ended[-1].line.strip())
    argument.says(
        f"only {number(kept)} of {number(wanted)} tokens match the {number(held)} that were there"
    )
    argument.says(cuts[-1].line.strip())
    for line in window.lines_with(r"\bsim = ")[-1:]:
        argument.says(line.strip())
    argument.fact(one)
    for fact in grows:
        argument.fact(fact)
    argument.fact(differs, "near its start")
    for fact in told_all(window, r"what (differs|changes|changed)"):
        argument.fact(fact)
    _cite_computed(argument, window.events_of(LogKind.PROMPT_EVALUATED))
    return True


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


def _fallen_to(argument: Argument, window: Window) -> float | None:
    """The hit rate of late over that before; None where it was never worth mentioning."""
    rates = hit_rates(window)
    if rates is not None and len(rates.readings) > 1:
        before = _before(rates)
        if before >= _WAS:
            argument.series(rates)
            return late(rates) / before
    pattern = r"hit (rate|ratio|share|percent)|cached (tokens )?(share|ratio)|prefix reuse|hits\b"
    for contrast in contrasts(window, pattern, is_share=True):
        if _WAS <= contrast.base_value <= 1.0:
            argument.says(contrast.says)
            return contrast.factor
    cuts = [event for event in window.events_of(LogKind.CACHE_CUT) if "from" in event.fields]
    kept_before = told_number(
        window, r"(cached|reused|kept|common).*tokens.*(before|usual|earlier)"
    )
    kept = number_of(kept_before)
    if cuts and kept and kept_before is not None:
        argument.fact(kept_before)
        argument.says(cuts[-1].line.strip())
        for fact in told_all(window, r"differ|lcp|common prefix"):
            argument.fact(fact)
        return cuts[-1].fields["from"] / kept
    told_before = told_number(window, r"hit (rate|ratio|share).*(before|usual|baseline|yesterday)")
    was = share_of(told_before)
    if rates is not None and was is not None and told_before is not None and was >= _WAS:
        argument.fact(told_before)
        argument.series(rates)
        return late(rates) / was
    for contrast in contrasts(window, r"cached tokens|reused tokens|prefix hits|cache n"):
        if contrast.base_value >= _FEWEST_TOKENS:
            argument.says(contrast.says)
            return contrast.factor
    return None


def _finds_as_much(window: Window) -> bool:
    """Each request finds as many tokens as before: prompts became longer, and nothing was lost."""
    hits = rates(window.find(Signal.PREFIX_HITS), window)
    hits = hits or rates(window.find(Signal.CACHED_PROMPT_TOKENS), window)
    ended = rates(window.find(Signal.FINISHED), window)
    ended = ended or rates(window.find(Signal.GATEWAY_ENDED), window)
    if hits is None or ended is None or hits.before <= 0 or ended.before <= 0 or ended.after <= 0:
        return False
    return hits.after / ended.after >= _AS_MUCH * hits.before / ended.before


def _below_its_siblings(argument: Argument, window: Window) -> float | None:
    """One replica finds hardly anything of what the others find, for the same kind of requests."""
    shares: dict[str, float] = {}
    for asked in window.all_series(Signal.PREFIX_QUERIES):
        place = asked.labels.get("replica") or asked.labels.get("engine")
        found = [
            series
            for series in window.all_series(Signal.PREFIX_HITS)
            if series.labels == asked.labels
        ]
        if place is not None and found and asked.last.value >= _MANY_TOKENS:
            shares[place] = found[0].last.value / asked.last.value
    if len(shares) < 2:
        return None
    worst = min(shares, key=lambda place: shares[place])
    others = sorted(share for place, share in shares.items() if place != worst)
    usual = others[len(others) // 2]
    if usual < _WAS or shares[worst] > _GONE * usual:
        return None
    argument.says(
        f"{worst} finds {shares[worst] * 100:.3g} % of its tokens, the others {usual * 100:.3g} %"
    )
    for series in (
        *window.all_series(Signal.PREFIX_HITS),
        *window.all_series(Signal.PREFIX_QUERIES),
    ):
        argument.says(f"{series.origin.name} {', '.join(series.labels.values())} {series.last.raw}")
    return shares[worst] / usual


def _before(rates: Series) -> float:
    """The median of what came before the last quarter: one high interval is no state."""
    values = sorted(rates.values[: max(1, len(rates.values) * 3 // 4)])
    return max(rates.first.value, values[len(values) // 2])


def _reasons(argument: Argument, window: Window) -> bool:
    found = False
    for change in window.changes_with(_REASONS):
        argument.says(f"change: {change.what}")
        found = True
    for line in window.lines_with(_REPROCESS)[-1:]:
        argument.says(line.strip())
        found = True
    for doubt in window.doubts_of(DoubtKind.COUNTER_RESET)[:1]:
        argument.says(f"restarted: {doubt.what}")
        found = True
    pattern = r"evict|restart|template|salt|rout(ing|e)\b|system prompt|cache reset"
    for fact in told_all(window, pattern)[-2:]:
        argument.fact(fact)
        found = True
    return found


def _cite(argument: Argument, window: Window) -> None:
    for signal in (Signal.PREFIX_QUERIES, Signal.PREFIX_HITS, Signal.COMPUTED_PROMPT_TOKENS):
        argument.series(window.find(signal))
    for contrast in contrasts(window, r"\bttft\b|prefill|prompt eval|first token")[:2]:
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
