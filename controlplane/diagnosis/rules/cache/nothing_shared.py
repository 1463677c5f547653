"""There is nothing to reuse: no common prefix, or one shorter than a block."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.cache.changing_start import changes_at_start
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.restarts import restart_of
from controlplane.diagnosis.views.shared import UNIQUE, block_of, differences, differs_at
from controlplane.diagnosis.views.told import (
    is_switch,
    number_of,
    plain,
    told_all,
    told_number,
    value_of,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.limits import CONTEXT_LIMIT
from dataplane.engine_metrics.signal import Signal, Unit

_NO_HITS = 0.01
"""Of what was looked up: as good as none; chat templates alone share a few tokens."""
_SPOKEN_OF = (
    r"\b(prefix(es)?|hits?|shared|common|template|system prompt|instruction|identical|begins?"
    r"|differs?|distinct|first (line|bytes|tokens?(?! time))|history|cached|reuse)\b"
    r"|\bshare\b.*\b(prompts?|history|contexts?|tokens|requests?)\b"
    r"|\b(prompts?|history|contexts?|tokens|requests?)\b.*\bshare\b"
)
_CONFIGURED = r"^(enable )?prefix cach|hash algo|block size|caching( enabled)?$"
_NEARLY_ALL = 0.9
_HARDLY_ANY = 0.02
_FEWEST_PROMPTS = 2
_LITTLE_KEPT = 0.05
"""Of a prompt: the first tokens of a template."""
_FEWEST_QUERIES = 2_000
"""Tokens looked up; fewer is a handful of prompts."""
_SHARED = (
    r"(shared|common|system|identical) .*?(prefix|prompt|tokens|len)|prefix (tokens|len|length)"
)


def judge(window: Window) -> Verdict | None:
    """CERTAIN where no request, or no shared part, fills one block; LIKELY where none of those that
    came did, or prompts are known to differ; otherwise no hits are a fact and no trouble."""
    changing = changes_at_start(window)
    if changing is not None:
        return changing
    argument = Argument(window)
    queried = _no_hits(argument, window)
    if queried is None:
        return None
    block = block_of(window)
    if not _is_missed(window, block):
        if _stands_still(window) or restart_of(window) is not None:
            return None  # a cache that is new has nothing that could be shared yet
        argument.need("whether anybody counts on hits: what prompts share, and how late tokens are")
        return argument.verdict(Confidence.POSSIBLE)
    is_shorter = block is not None and _is_below_a_block(argument, window, block)
    if is_shorter or (block is not None and _all_prompts_below(argument, window, block)):
        argument.against("cache.prefix_loss: nothing was ever found that could be lost")
        argument.against("cache.thrash: no hits throw nobody out")
        return argument.verdict(Confidence.CERTAIN if is_shorter else Confidence.LIKELY)
    differs = _prompts_differ(argument, window)
    argument.against("cache.prefix_loss: nothing was found before either")
    if differs:
        return argument.verdict(Confidence.CERTAIN if queried else Confidence.LIKELY)
    argument.need(
        "how many tokens the prompts share at their start",
        "block size of the prefix cache",
        "whether prefix caching is on and what changes from prompt to prompt",
    )
    return argument.verdict(Confidence.POSSIBLE)


def _is_missed(window: Window, block: Figure | None) -> bool:
    """No hits for prompts that share nothing are no trouble: somebody has to speak of them, or
    nothing else was shown, or no request could ever fill a block."""
    limit = value_of(window, CONTEXT_LIMIT)
    if block is not None and limit is not None and limit < block.value:
        return True
    spoken = [
        fact
        for fact in told_all(window, _SPOKEN_OF, without=_CONFIGURED)
        if fact.unit is not Unit.SECONDS and not is_switch(fact)
    ]
    if window.changes_with(_SPOKEN_OF) or spoken:
        return True
    if any(re.search(_SPOKEN_OF, fact.raw.lower()) for fact in window.facts if fact.value is None):
        return True
    shown = (Signal.RUNNING, Signal.GENERATION_TOKENS, Signal.GENERATION_RATE)
    return all(window.find(signal) is None for signal in shown)


def _stands_still(window: Window) -> bool:
    """Requests are in the batch, and nothing is computed for them: nobody asks about hits then."""
    activity = activity_of(window)
    work = [rate for rate in (activity.decode, activity.prefill) if rate is not None]
    has_requests = activity.running is not None and activity.running.last.value > 0
    return has_requests and bool(work) and all(rate.last.value == 0 for rate in work)


def _no_hits(argument: Argument, window: Window) -> bool | None:
    """None where there are hits or nobody looked; True where much was looked up."""
    queries, hits = window.find(Signal.PREFIX_QUERIES), window.find(Signal.PREFIX_HITS)
    if queries is not None and hits is not None:
        return _of_counters(argument, queries, hits)
    queries = window.find(Signal.EXTERNAL_PREFIX_QUERIES)
    hits = window.find(Signal.EXTERNAL_PREFIX_HITS)
    if queries is not None and hits is not None:
        return _of_counters(argument, queries, hits)
    cached = window.find(Signal.CACHED_PROMPT_TOKENS)
    prompts = window.find(Signal.PROMPT_TOKENS) or window.find(Signal.COMPUTED_PROMPT_TOKENS)
    if cached is not None and prompts is not None:
        return _of_counters(argument, prompts, cached)
    told_none = _told(argument, window)
    if told_none is not None:
        return told_none
    kept = _kept_by_slots(argument, window)
    if kept is not None:
        return kept
    batches = _of_batches(argument, window)
    if batches is not None:
        return batches
    rates = hit_rates(window)
    if rates is None or rates.max > _NO_HITS:
        return None
    prompt_rate = window.find(Signal.PROMPT_RATE)
    if rates.signal is Signal.HIT_RATE and prompt_rate is not None and prompt_rate.max == 0:
        return None
    argument.series(rates)
    return False


def _told(argument: Argument, window: Window) -> bool | None:
    """Counts that somebody wrote down."""
    hits = told_number(window, r"\b(prefix|cache)\b.*\bhits\b|\bhits\b|cached tokens")
    asked = told_number(window, r"quer(y|ies)|looked up|prompt tokens (total|asked)|lookups")
    found, looked = number_of(hits), number_of(asked)
    if hits is None or asked is None or found is None or not looked:
        return None
    if found > _NO_HITS * looked:
        return None
    argument.fact(hits)
    argument.fact(asked)
    return looked >= _FEWEST_QUERIES


def _of_batches(argument: Argument, window: Window) -> bool | None:
    """A log that tells of each prefill batch what was reused and what was computed."""
    reused, computed = (
        window.find(Signal.BATCH_CACHED_TOKENS),
        window.find(Signal.BATCH_COMPUTED_TOKENS),
    )
    if reused is None or computed is None:
        return None
    found, done = sum(reused.values), sum(computed.values)
    if done <= 0 or found > _HARDLY_ANY * (found + done):
        return None
    argument.series(reused)
    argument.series(computed)
    argument.says(f"{number(found)} tokens reused of {number(found + done)}")
    return done >= _FEWEST_QUERIES


def _kept_by_slots(argument: Argument, window: Window) -> bool | None:
    """A server with slots says how many tokens of each prompt it keeps. None where it does not, or
    where it keeps some."""
    prompts = [
        event.fields["tokens"]
        for event in window.events_of(LogKind.PROMPT_STARTED)
        if event.fields.get("tokens")
    ]
    cuts = window.events_of(LogKind.CACHE_CUT, LogKind.CACHE_RESET)
    if len(prompts) < _FEWEST_PROMPTS or len(cuts) < _FEWEST_PROMPTS:
        return None
    if window.events_of(LogKind.FULL_REPROCESS):
        return None
    kept = [event.fields.get("from", 0.0) for event in cuts]
    if max(kept) > _LITTLE_KEPT * min(prompts):
        return None
    argument.says(
        f"only {', '.join(number(each) for each in kept[-4:])} tokens kept of prompts of "
        f"{', '.join(number(each) for each in prompts[-4:])}"
    )
    for event in cuts[-2:]:
        argument.says(event.line.strip()[:160])
    return sum(prompts) >= _FEWEST_QUERIES


def _of_counters(argument: Argument, queries: Series, hits: Series) -> bool | None:
    if queries.last.value <= 0 or hits.last.value > _NO_HITS * queries.last.value:
        return None
    argument.series(hits)
    argument.series(queries)
    argument.says(f"{hits.last.raw} hits of {queries.last.raw} queried tokens")
    return queries.last.value >= _FEWEST_QUERIES


def _is_below_a_block(argument: Argument, window: Window, block: Figure) -> bool:
    """The shared part, the longest request or the longest prompt."""
    shared = told_number(window, _SHARED, without=r"hit|rate|block|share of")
    value = number_of(shared)
    is_tokens = value is not None and not 0 < value < 1  # as a share is
    if shared is not None and value is not None and is_tokens and value < block.value:
        argument.fact(shared, f"shorter than one block ({block.says})")
        return True
    differs = differs_at(window)
    if differs is not None and differs.value is not None and differs.value < block.value:
        argument.fact(differs, f"before the first block ends ({block.says})")
        return True
    limit = value_of(window, CONTEXT_LIMIT)
    if limit is not None and limit < block.value:
        argument.says(
            f"{block.says} > max_model_len {number(limit)}: no request can fill one block"
        )
        return True
    longest = told_number(
        window, r"(longest|largest|max|p99|typical|median|mean).*prompt|prompt.*len"
    )
    value = number_of(longest)
    if longest is not None and value is not None and value < block.value:
        argument.fact(longest, f"shorter than one block ({block.says})")
        return True
    return False


def _all_prompts_below(argument: Argument, window: Window, block: Figure) -> bool:
    histogram = window.find_histogram(Signal.PROMPT_LENGTH)
    most = None if histogram is None else histogram.quantile(0.999)
    if histogram is None or most is None or most >= block.value:
        return False
    argument.histogram(histogram, most, f"prompts up to {number(round(most))} tokens; {block.says}")
    return True


def _prompts_differ(argument: Argument, window: Window) -> bool:
    """Somebody says that they begin differently."""
    found = False
    for fact in differences(window):
        if re.search(_CONFIGURED, plain(fact.key)) or number_of(fact) == 1:
            continue  # a setting of the cache, or one kind of prompts in all
        argument.fact(fact, "it differs at its start")
        found = True
    distinct = told_number(window, r"^(distinct|unique|different)\b")
    many = told_number(window, r"^(num )?(requests?|prompts?)( (total|seen|last \d+ s))?$")
    apart, of = number_of(distinct), number_of(many)
    if distinct is not None and apart is not None and of and apart >= _NEARLY_ALL * of:
        argument.fact(distinct)
        argument.fact(many)
        found = True
    shared = told_number(window, _SHARED, without=r"hit|rate|block")
    if shared is not None and number_of(shared) == 0:
        argument.fact(shared, "nothing in common")
        found = True
    for change in window.changes_with(UNIQUE):
        argument.says(f"change: {change.what}")
    return found


NOTHING_SHARED = Rule(
    id="cache-nothing-shared",
    mechanism=Mechanism.CACHE_NOTHING_SHARED,
    judge=judge,
    needs=("prefix cache hits and queries", "block size, or what prompts have in common"),
    told_apart="From a lost prefix by hits that never were, from thrash by nobody thrown out; "
    "no hits alone are no trouble where prompts differ.",
    remedy="Accept an idle cache for this traffic, or put what is common first and make it "
    "longer than a block.",
    hides="Switching the cache off hides that a template could be reordered so that it pays.",
)
