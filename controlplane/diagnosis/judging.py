"""From verdicts to one answer: the surest finding that no other explains."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controlplane.diagnosis import unsettled
from controlplane.diagnosis.citations import with_citations
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis, Finding
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.views.ending import End, end_of
from controlplane.diagnosis.views.restarts import restart_of
from controlplane.diagnosis.window import Window


def diagnose(window: Window, rules: Sequence[Rule]) -> Diagnosis:
    """What is wrong in `window`. Rules that stand earlier win where two are equally sure. Where its
    process is gone, only what ends processes is a headline: the rest was so before."""
    found = _judge(window, rules)
    end = end_of(window)
    likely = [
        finding
        for finding in found
        if finding.confidence >= Confidence.LIKELY
        and (end is None or end.leaves(finding.mechanism))
    ]
    explained = [finding for finding in likely if _is_explained(finding, likely)]
    findings = _surest_of_each(finding for finding in likely if finding not in explained)
    possible = tuple(
        _only_possible(finding)
        for finding in found
        if finding not in likely
        and not (end is not None and finding.mechanism is Mechanism.HEALTHY)
        and not _is_explained(finding, findings)
    )
    first = findings[0] if findings else None
    return Diagnosis(
        window=window,
        mechanism=first.mechanism if first else Mechanism.CANNOT_TELL,
        confidence=first.confidence if first else None,
        findings=findings,
        possible=_surest_of_each(possible, beside=findings),
        explained=_surest_of_each(explained, beside=findings),
        needs=first.verdict.needs if first else _needs(possible, window, end),
        seen=() if first else unsettled.seen(window),
    )


def _judge(window: Window, rules: Sequence[Rule]) -> list[Finding]:
    """The surest first, and among those equally sure the rule that stands first."""
    found = [
        Finding(rule=rule, verdict=with_citations(window, verdict))
        for rule in rules
        if (verdict := rule.judge(window)) is not None
    ]
    return sorted(found, key=lambda finding: -finding.confidence)


def _only_possible(finding: Finding) -> Finding:
    """One that was likely before its process ended says nothing certain of it now."""
    if finding.confidence is Confidence.POSSIBLE:
        return finding
    return replace(finding, verdict=replace(finding.verdict, confidence=Confidence.POSSIBLE))


def _surest_of_each(
    found: Iterable[Finding], beside: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """The first of each mechanism: two rules may look at one from two sides. None of those that
    stand in `beside` already."""
    told = {finding.mechanism for finding in beside}
    first: dict[Mechanism, Finding] = {}
    for finding in found:
        if finding.mechanism not in told:
            first.setdefault(finding.mechanism, finding)
    return tuple(first.values())


def _is_explained(finding: Finding, causes: Iterable[Finding]) -> bool:
    """Whether it is a consequence of one of `causes`; two that explain each other both stand.
    Nothing is well beside a cause."""
    return any(
        finding.mechanism is Mechanism.HEALTHY
        or (
            finding.mechanism in cause.rule.explains
            and cause.mechanism not in finding.rule.explains
        )
        for cause in causes
        if cause is not finding
    )


def _needs(possible: Sequence[Finding], window: Window, end: End | None) -> tuple[str, ...]:
    """What the possible ones lack; where there are none, what is not known at all. How it ended
    comes before why it was slow, also where it is back."""
    if end is not None:
        return end.needs
    restart = restart_of(window)
    if restart is not None:
        return restart.needs
    needs = [need for finding in possible for need in finding.verdict.needs]
    return tuple(dict.fromkeys(needs)) or unsettled.asked(window)
