"""A rule: what is looked for, how, and what it is told apart from."""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `judge` is pure: no clock, no input or output, the same window the same verdict."""

    id: str
    """Unique; lower-case words with dashes."""
    mechanism: Mechanism
    judge: Callable[[Window], Verdict | None]
    """None: nothing speaks for it. A verdict of POSSIBLE: something does, and more is needed."""
    needs: tuple[str, ...]
    """The signals that it cannot do without, in the words of `Signal` or as an operator would say
    it; one that lists alternatives says `a or b`."""
    told_apart: str
    """From which look-alikes, and by what. One or two sentences."""
    remedy: str
    """The direction of the fix. One sentence."""
    hides: str
    """What that remedy may hide, or what evidence it destroys. One sentence."""
    explains: frozenset[Mechanism] = frozenset()
    """Verdicts about these are consequences of this one where both are found: they step back."""
    stands_beside: bool = False
    """What it sees is a trouble of its own, told beside whatever else is the answer, also where it
    is only possible."""

    @property
    def runbook(self) -> str | None:
        """Its page."""
        return self.mechanism.runbook
