"""One request of an arm, as far as arms are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dataplane.lifecycle import ANSWERS, BROKEN, REFUSED, Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRequest:
    """What became of it. None: not known, or it does not apply."""

    request_class: str
    disposition: Disposition
    num_prompt_tokens: int | None
    num_output_tokens: int | None
    in_contract: bool | None
    """None: nothing was promised, or it was judged on nothing."""
    ttft: float | None
    """Seconds."""
    tpot: float | None
    """Seconds a token."""
    contract_revision: str | None = None
    """It was judged by this one; None: by none."""
    objectives: Mapping[str, bool] = field(default_factory=dict)
    """By objective that applied to it (a signal, or `together`), whether it was kept."""

    @property
    def is_answer(self) -> bool:
        """It came to an end of its own."""
        return self.disposition in ANSWERS

    @property
    def is_failure(self) -> bool | None:
        """It was refused or broke; None: who asked left, or asked for what cannot be."""
        if self.disposition in REFUSED | BROKEN:
            return True
        return False if self.is_answer else None


def length_band(num_tokens: int | None) -> int:
    """Which requests are about as long: each band ends at twice the length where it begins. -1:
    nobody counted."""
    return -1 if num_tokens is None else int(math.log2(num_tokens + 1))
