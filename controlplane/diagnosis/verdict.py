"""What a rule says of one mechanism after it looked at a window."""

from dataclasses import dataclass, field

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A figure of the evidence, so that programs need not read sentences."""

    signal: str
    """Of `Signal`, or the key of a fact."""
    value: float
    unit: str
    source: SourceKind
    name: str
    """As it is called at its source."""
    raw: str = ""
    """As it is written there, and in the evidence; empty for what was reckoned of several."""
    place: str = ""
    """Which replica or rank it is of, where a source has several."""
    at: float
    age_seconds: float
    is_beside: bool = False
    """It stood there as well, and decided nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Words that the evidence repeats: a fact that is no number, a change, a line of a log."""

    source: SourceKind
    name: str
    """The key of a fact; `change`, `line`."""
    text: str
    """As it was told; of a long line its beginning."""
    at: float | None
    """None: a line without a time, below none that has one."""
    age_seconds: float | None


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
    """What the rule weighed. Judging adds the other figures of the evidence (`citations`)."""
    told: tuple[Told, ...] = ()
    """What the evidence repeats in words; filled by judging, too."""
    detail: str = ""
    """What of the mechanism exactly: the ledger line that broke, the stage that took long, the
    replica that has most. One or two words to one sentence."""
    remedy: str | None = None
    """Where this case wants another direction than the rule says in general."""
