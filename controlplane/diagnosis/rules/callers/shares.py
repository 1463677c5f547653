"""Who has how much of what there is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.views.told import plain
from controlplane.diagnosis.words.shares import SHARE

SHARE_WORDS = rf"{SHARE}|of all"
_HELD = re.compile(r"in ?flight|waiting|queued|running|seats|slots|held|holds|\bkv\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Who has how much of one thing."""

    what: str
    """In the words of its key."""
    says: str
    name: str
    """Who has most."""
    share: float
    """Of all, 0 to 1."""
    num_callers: int

    @property
    def is_held(self) -> bool:
        """It is what callers hold now, and not what they sent over some time."""
        return _HELD.search(self.what) is not None


def shares_between(key: str, members: Sequence[tuple[str, float, str]]) -> Shares | None:
    """Of members by name, value and value as written; None where they have nothing together."""
    whole = sum(value for _, value, _ in members)
    if len(members) < 2 or whole <= 0:
        return None
    name, most, _ = max(members, key=lambda member: member[1])
    is_share = 0 < whole <= 1.001 and re.search(SHARE_WORDS, plain(key))
    share = most if is_share else most / whole
    told = ", ".join(f"{who} {raw}" for who, _, raw in members)
    return Shares(
        what=plain(key),
        says=f"{key}: {told}; {name} has {number(most)} of {number(whole)} ({share * 100:.0f} %)",
        name=name,
        share=share,
        num_callers=len(members),
    )
