"""A diagnosis as programs read it: one form for the command, the API and what is stored."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from controlplane.diagnosis.citations import cited_in, told_in
from controlplane.diagnosis.diagnosis import Diagnosis, Finding, Lasted
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.onset import Onset, find_onset
from controlplane.diagnosis.verdict import Cited, Told


def diagnosis_as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """`mechanism`, `confidence`, `findings`, `needs`, and what else is known.

    Where it cannot be told, the first finding says so with all that was seen, and those that are
    only possible follow.
    """
    window = diagnosis.window
    return {
        "mechanism": diagnosis.mechanism.value,
        "confidence": diagnosis.confidence.word if diagnosis.confidence else None,
        "findings": _findings(diagnosis),
        "needs": list(diagnosis.needs),
        "since": _since(diagnosis),
        "lasted": _lasted(diagnosis.lasted),
        "explained": [finding_as_json(finding) for finding in diagnosis.explained],
        "possible": [finding_as_json(finding) for finding in diagnosis.possible],
        "engine": asdict(window.engine) if window.engine else None,
        "window": {"start": window.start, "end": window.end},
        "telemetry": [
            {"kind": doubt.kind.value, "name": doubt.name, "what": doubt.what, "at": doubt.at}
            for doubt in window.doubts
        ],
    }


def finding_as_json(finding: Finding) -> dict[str, Any]:
    """One finding. `values` are the figures of its evidence with signal, unit, source, time and
    age; `told` is what it repeats in words, with source, time and age."""
    rule, verdict = finding.rule, finding.verdict
    return {
        "mechanism": rule.mechanism.value,
        "confidence": verdict.confidence.word,
        "evidence": list(verdict.evidence),
        "against": list(verdict.against),
        "needs": list(verdict.needs),
        "remedy": finding.remedy,
        "runbook": rule.runbook,
        "rule": rule.id,
        "meaning": rule.mechanism.meaning,
        "detail": verdict.detail,
        "told_apart": told_apart(rule.told_apart),
        "hides": rule.hides,
        "values": _records(verdict.cited),
        "told": _records(verdict.told),
    }


def _records(found: Iterable[Cited | Told]) -> list[dict[str, Any]]:
    return [asdict(each) | {"source": each.source.value} for each in found]


def onset_as_json(onset: Onset) -> dict[str, Any]:
    """The moment, the signal that tells it, and what was changed before."""
    return {
        "at": onset.at,
        "signal": onset.name,
        "before": onset.before,
        "after": onset.after,
        "is_rate": onset.is_rate,
        "preceded_by": [
            {"what": lag.change.what, "at": lag.change.at, "lag_seconds": lag.seconds}
            for lag in onset.preceded_by
        ],
    }


def _since(diagnosis: Diagnosis) -> dict[str, Any] | None:
    if not diagnosis.findings or diagnosis.mechanism is Mechanism.HEALTHY:
        return None  # it takes a second, and nobody asks since when all is well
    by = None if diagnosis.lasted is None else diagnosis.lasted.sure_from
    onset = find_onset(diagnosis.window, diagnosis.findings[0], by)
    return None if onset is None else onset_as_json(onset)


def _lasted(lasted: Lasted | None) -> dict[str, Any] | None:
    if lasted is None:
        return None
    return {
        "seen_from": lasted.seen_from,
        "seen_until": lasted.seen_until,
        "is_over": lasted.seen_until is not None,
        "now": None if lasted.now is None else lasted.now.value,
        "now_confidence": None if lasted.now_confidence is None else lasted.now_confidence.word,
        "serving_since": lasted.serving_since,
    }


def told_apart(words: str) -> str:
    """A rule's words, `From overload by ...`, as a sentence."""
    return f"Told apart {words[:1].lower()}{words[1:]}" if words.startswith("From ") else words


def _findings(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    if diagnosis.findings:
        return [finding_as_json(finding) for finding in diagnosis.findings]
    possible = [finding_as_json(finding) for finding in diagnosis.possible]
    return [_undecided(diagnosis, possible), *possible]


def _undecided(diagnosis: Diagnosis, possible: list[dict[str, Any]]) -> dict[str, Any]:
    def merged(key: str) -> list[str]:
        return list(dict.fromkeys(text for finding in possible for text in finding[key]))

    cannot_tell = Mechanism.CANNOT_TELL
    return {
        "mechanism": cannot_tell.value,
        "confidence": None,
        "evidence": list(dict.fromkeys((*merged("evidence"), *diagnosis.seen))),
        "against": merged("against"),
        "needs": list(diagnosis.needs),
        "remedy": GATHER,
        "runbook": cannot_tell.runbook,
        "rule": None,
        "meaning": cannot_tell.meaning,
        "detail": "",
        "told_apart": "",
        "hides": "",
        "values": [
            *(value for finding in possible for value in finding["values"]),
            *_records(cited_in(diagnosis.window, diagnosis.seen)),
        ],
        "told": [
            *(told for finding in possible for told in finding["told"]),
            *_records(told_in(diagnosis.window, diagnosis.seen)),
        ],
    }


GATHER = "Gather what is needed before anything is changed or restarted, and diagnose again."
"""The remedy where it cannot be told."""
