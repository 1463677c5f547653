"""What a verdict says, as fields that tests may hold it to: no sentence of evidence is one."""

import re

from controlplane.diagnosis.citations import with_citations
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def cited(found: Window, verdict: Verdict) -> set[tuple[str, str]]:
    """Names and figures that its evidence has of `found`, as they stand there."""
    return {(each.name, each.raw) for each in with_citations(found, verdict).cited}


def repeated(found: Window, verdict: Verdict) -> set[str]:
    """Facts, changes and lines of `found` that its evidence repeats in words."""
    return {each.text for each in with_citations(found, verdict).told}


def reckoned(verdict: Verdict) -> set[float]:
    """All figures of its evidence, also those that were reckoned of others."""
    found = _NUMBER.findall(" ".join(verdict.evidence))
    return {float(each.replace(",", "")) for each in found}


def weighed(verdict: Verdict) -> set[Mechanism]:
    """The look-alikes that it was weighed against."""
    against = " ".join(verdict.against)
    return {each for each in Mechanism if re.search(rf"\b{re.escape(each.value)}\b", against)}
