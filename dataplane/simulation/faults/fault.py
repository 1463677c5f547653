"""What every fault has: when, for how long, how strong, and draws of its own."""

import hashlib
import math
from dataclasses import dataclass

_DRAWS = 2.0**-53


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Active in [at, at + duration), in seconds of virtual time.

    Raises ValueError for a negative time or intensity.
    """

    at: float = 0.0
    duration: float | None = None
    """None: it stays."""
    intensity: float = 1.0
    """0: none of it. What 1 is, each fault says."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("at", "intensity", "duration"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; it must be a number from 0 on")

    @property
    def ends_at(self) -> float:
        """The first moment without it; infinity when it stays."""
        return math.inf if self.duration is None else self.at + self.duration

    @property
    def is_none(self) -> bool:
        """It never has an effect."""
        return self.intensity == 0 or self.duration == 0

    def is_active(self, now: float) -> bool:
        """Whether it has an effect at `now`."""
        return self.at <= now < self.ends_at

    def draw(self, *names: str | int | float) -> float:
        """Of [0, 1), by what it is drawn for alone: order, and other draws, do not matter."""
        text = "/".join([type(self).__name__, str(self.seed), *map(str, names)])
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) * _DRAWS

    def hits(self, *names: str | int | float) -> bool:
        """Whether what is named belongs to the share `intensity` that is hit."""
        return self.draw(*names) < self.intensity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFault(Fault):
    """A fault of one replica, or of all."""

    replica: str | None = None
    """Its id; None: every replica."""

    def is_of(self, replica_id: str) -> bool:
        """Whether it is about this replica."""
        return self.replica is None or self.replica == replica_id
