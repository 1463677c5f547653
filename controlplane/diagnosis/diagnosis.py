"""The answer: what is wrong, how sure that is, and what would have to be known."""

from dataclasses import dataclass

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule's verdict, with what the rule says of its mechanism."""

    rule: Rule
    verdict: Verdict

    @property
    def mechanism(self) -> Mechanism:
        """What was found."""
        return self.rule.mechanism

    @property
    def confidence(self) -> Confidence:
        """How sure it is."""
        return self.verdict.confidence

    @property
    def remedy(self) -> str:
        """The direction of the fix, in this case."""
        return self.verdict.remedy or self.rule.remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasted:
    """From when to when the surest finding was to be seen, on the window's clock."""

    seen_from: float
    seen_until: float | None
    """None: to the end, or it is too soon to say."""
    now: Mechanism | None = None
    """What came after it, judged alone; None while it lasts, or where nothing came."""
    now_confidence: Confidence | None = None
    is_moment: bool = False
    """A failure that happened at `seen_from`, and did not last."""
    sure_from: float | None = None
    """It was as sure as it is: what changed later is not how it began."""
    serving_since: float | None = None
    """It was started anew after it, and works; None where that was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the rules say of one window."""

    window: Window
    mechanism: Mechanism
    """Of the first of `findings`; `cannot_tell` where there is none."""
    confidence: Confidence | None
    """None for `cannot_tell`."""
    findings: tuple[Finding, ...]
    """Likely at least, the surest first."""
    possible: tuple[Finding, ...]
    """Something speaks for them, and what would settle it was not seen."""
    explained: tuple[Finding, ...]
    """Found as well, and consequences of one of `findings`."""
    needs: tuple[str, ...]
    """What would settle it, or make it surer."""
    seen: tuple[str, ...] = ()
    """Of `cannot_tell`: what stood there, whether a rule made anything of it or not."""
    lasted: Lasted | None = None
    """None: it was not looked up (`lasting`), or is not known."""
