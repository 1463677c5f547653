"""What is known beside series: settings, limits, a probe's answer, somebody's note.

Whoever writes it down chooses the words (`gpu_memory_in_use_gib`, `probe_one_token`), so a rule
asks by the words that it needs and not by a key. `sources.facts` splits keys into words, takes
units and percentiles out of them, and puts one word for several that mean the same.
"""

from dataclasses import dataclass

from dataplane.engine_metrics.signal import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that is known, as of one time."""

    key: str
    """As it was written."""
    raw: str
    """Its value as it was written, with its unit; findings cite `key` and this."""
    words: frozenset[str]
    """What the key says, in the words of `sources.facts`."""
    at: float
    value: float | None = None
    """In `unit`; None where it is no number."""
    unit: Unit | None = None
    """None: the key does not say."""
    quantile: float | None = None
    """0.95 for a p95; None for a mean, a total or a plain value."""
    load: float | None = None
    """So many streams or requests at once, where the key says `at_48`."""
    over_seconds: float | None = None
    """The time that a count is over, or that a share is beyond, where the key says `last_60_s`."""
    part: str | None = None
    """For which of several, where one key holds a value for each: a caller, a worker."""
    place: str = ""
    """Of which endpoint's page it is; empty where it was told otherwise."""
    is_observed: bool = False
    """A source of ours saw it when it looked: how a scrape went, what a probe was answered, what
    our records say. Nobody wrote it down, so it says nothing about what anybody reads or asks."""
