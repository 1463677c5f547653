"""What came of one scenario: figures for whoever reads, and all that is wrong."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Outcome:
    """Nothing wrong is what is hoped for."""

    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def expect(self, is_so: bool, what: str) -> None:
        """`what` says what should be, with the numbers."""
        if not is_so:
            self.wrong.append(f"not so: {what}")

    def add_wrong(self, wrong: Iterable[str]) -> None:
        """What somebody else found."""
        self.wrong += wrong
