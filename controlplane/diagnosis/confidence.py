"""How sure a verdict is."""

from enum import IntEnum


class Confidence(IntEnum):
    """Ordered, so that the surer of two can be taken."""

    POSSIBLE = 1
    """Something speaks for it, and something that would settle it was not seen."""
    LIKELY = 2
    """All that could be seen fits it, and the look-alikes do not fit."""
    CERTAIN = 3
    """Something was seen that only this mechanism leaves."""

    @property
    def word(self) -> str:
        """As people and programs read it."""
        return self.name.lower()
