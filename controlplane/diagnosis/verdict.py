"""What a rule says of one mechanism after it looked at a window."""

from dataclasses import dataclass, field

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A value that decided, so that programs need not read sentences."""

    signal: str
    """Of `Signal`, or the key of a fact."""
    value: float
    unit: str
    source: SourceKind
    name: str
    """As it is called at its source."""
    at: float
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """For a mechanism, with what speaks for it and against it.

    `evidence` is sentences with the figures as they stand at their source: names as they are called
    there, numbers as they were written. POSSIBLE says what `needs` would settle it.
    """

    confidence: Confidence
    evidence: tuple[str, ...]
    against: tuple[str, ...] = ()
    """What does not fit it, and each look-alike that was weighed with why it is not that one."""
    needs: tuple[str, ...] = ()
    """Signals or facts that would settle it, or make it surer."""
    cited: tuple[Cited, ...] = field(default=())
    detail: str = ""
    """What of the mechanism exactly: the ledger line that broke, the stage that took long, the
    replica that has most. One or two words to one sentence."""
    remedy: str | None = None
    """Where this case wants another direction than the rule says in general."""
