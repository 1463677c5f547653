"""From verdicts to one answer: the surest finding that no other explains."""

from collections.abc import Iterable, Sequence

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis, Finding
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.window import Window


def diagnose(window: Window, rules: Sequence[Rule]) -> Diagnosis:
    """What is wrong in `window`. Rules that stand earlier win where two are equally sure."""
    found = _judge(window, rules)
    findings, explained = _without_consequences(found)
    first = findings[0] if findings else None
    if first is not None and first.confidence >= Confidence.LIKELY:
        return Diagnosis(
            window=window,
            mechanism=first.mechanism,
            confidence=first.confidence,
            findings=findings,
            explained=explained,
            needs=first.verdict.needs,
        )
    return Diagnosis(
        window=window,
        mechanism=Mechanism.CANNOT_TELL,
        confidence=None,
        findings=findings,
        explained=explained,
        needs=_once(need for finding in findings for need in finding.verdict.needs)
        or _once(need for rule in rules for need in rule.needs),
    )


def _judge(window: Window, rules: Sequence[Rule]) -> list[Finding]:
    """The surest first, and among those equally sure the rule that stands first."""
    found = [
        Finding(rule=rule, verdict=verdict)
        for rule in rules
        if (verdict := rule.judge(window)) is not None
    ]
    return sorted(found, key=lambda finding: -finding.confidence)


def _without_consequences(
    found: list[Finding],
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Those that stand, and those that another explains. Only what is likely can explain."""
    explained = {
        index
        for index, finding in enumerate(found)
        for cause in found
        if cause is not finding
        and cause.confidence >= Confidence.LIKELY
        and finding.mechanism in cause.rule.explains
        and cause.mechanism not in finding.rule.explains
    }
    return (
        tuple(finding for index, finding in enumerate(found) if index not in explained),
        tuple(finding for index, finding in enumerate(found) if index in explained),
    )


def _once(needs: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(needs))
