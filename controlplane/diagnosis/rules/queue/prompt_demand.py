"""Prompts that come faster than they are read: tokens that arrive against tokens of prefill."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.rules.queue.demand import PLATEAU, arrivals_per_second
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.told import number_of, told_number

_LENGTH = (
    r"^(?=.*\b(prompts?|inputs?)\b)(?=.*\b(tokens?|len|length)\b)"
    r"(?!.*\b(max|limit|longest|shared|cached|prefix|per s|throughput|rate|total|sum|p9\d)\b)"
)
_OF_EACH = 256.0
"""Tokens: below it prompts are no work against the answers."""
_CLEARLY = 1.25
"""Times what is read: nobody's mean and median of lengths are that far from each other."""


def prompts_outrun(now: Activity) -> str:
    """`8 arrivals in 10 s of 65536 tokens each: 52429 tokens a second against 13361 that are read`;
    without what prefix hits save. Empty where that is not known."""
    arrivals = arrivals_per_second(now)
    length = told_number(now.window, _LENGTH)
    tokens, read = number_of(length), now.prefill
    if arrivals is None or length is None or not tokens or tokens < _OF_EACH or read is None:
        return ""
    fact, rate = arrivals
    hits = hit_rates(now.window)
    to_read = rate * tokens * (1 - (hits.max if hits is not None else 0.0))
    if read.mean <= 0 or to_read < _CLEARLY * (1 + PLATEAU) * read.max:
        return ""
    over = f" in {fact.over_seconds:g} s" if fact.over_seconds else ""
    return (
        f"{fact.key} {fact.raw}{over} of {length.key} {length.raw}: {number(round(to_read))} "
        f"tokens a second come, and {read.origin.name} {number(read.mean)}"
    )
