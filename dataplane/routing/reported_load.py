"""What a replica says of its own load, and how far it is believed.

The gateway knows what it has sent. A report can only add what the engine alone knows: work that
others sent it. It is believed while it is new and cannot be wrong. A replica that reports, twice
in a row, less than half of what this place holds there is wrong, or lies: then our counts stand
alone until it has told the truth for a while. One that reports more than it can run, likewise.
"""

from dataclasses import dataclass

MAX_AGE_SECONDS = 3.0
"""An older report is not used: three polls were missed."""
DISTRUST_SECONDS = 30.0
"""After a report that cannot be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLoad:
    """One report, judged when it came."""

    num_sequences: int | None
    """Running and waiting; None: it does not say."""
    told_at: float
    """On the gateway's clock, its age at that moment taken off."""
    num_foreign: int = 0
    """Beyond what this place has there; 0 where the report is not believed."""
    num_too_low: int = 0
    """Reports in a row that told too few."""
    distrusted_until: float | None = None
    why_not: str | None = None
    """Why it is not believed; None: it is, while it is new."""

    def age(self, now: float) -> float:
        """Seconds."""
        return max(0.0, now - self.told_at)

    def is_new(self, now: float) -> bool:
        """It says something, and not long ago."""
        return self.num_sequences is not None and self.age(now) <= MAX_AGE_SECONDS


def judge_report(
    num_running: int | None,
    num_waiting: int | None,
    told_at: float,
    *,
    fewest_held: int,
    most_held: int,
    max_num_seqs: int | None,
    before: ReportedLoad | None,
) -> ReportedLoad:
    """A report. `fewest_held` and `most_held` are the least and the most that this place held on
    the replica at any time since its last one: of what came and went it may have seen any part. Too
    low is what is too low for the least, foreign what is beyond the most: else whoever
    tells the truth would seem to have work of others, and a liar would draw requests to it."""
    if num_running is None:
        return ReportedLoad(num_sequences=None, told_at=told_at)
    num_sequences = num_running + (num_waiting or 0)
    num_too_low = 0
    if 2 * num_sequences < fewest_held:
        num_too_low = 1 + (before.num_too_low if before is not None else 0)
    until = None if before is None else before.distrusted_until
    why_not = None
    if max_num_seqs is not None and num_running > max_num_seqs:
        why_not = f"it reports {num_running} running sequences and runs at most {max_num_seqs}"
    elif num_too_low > 1:
        why_not = f"it reports {num_sequences} sequences where {fewest_held} were sent to it"
    if why_not is not None:
        until = told_at + DISTRUST_SECONDS
    elif until is not None and told_at < until:
        why_not = "it reported what cannot be true a short while ago"
    else:
        until = None
    return ReportedLoad(
        num_sequences=num_sequences,
        told_at=told_at,
        num_foreign=0 if why_not is not None else max(0, num_sequences - most_held),
        num_too_low=num_too_low,
        distrusted_until=until,
        why_not=why_not,
    )
