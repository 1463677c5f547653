"""Every incident from the field is named as it was finally confirmed, with the figures that tell.

The cases lie in `tests/incidents/`; what each expects is in its `expect`.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import Case, read_case

ROOT = Path(__file__).parents[3]
CASES = sorted((ROOT / "tests" / "incidents").rglob("*.yaml"))
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_THOUSANDS = re.compile(r"(?<![\w.])(\d+)K\b")
_MOST_NEEDS = 12
"""More is a catalogue, and nobody begins with it."""
_CITED_WHOLE = 0.9
"""1,538 of 1,707 sentences of evidence."""
_MOST_LESS_SURE = 194
"""Of the cases that were certain in the end: by more than the window shows, mostly."""
_SEEN_DIRECTLY = frozenset(
    {
        "comm-four-cards-small-model",
        "comm-no-bridge-between-slots",
        "decode-no-swap-space-n-50",
        "fragmentation-npu-multimodal",
        "host-128-clients-gil",
        "host-sleep-offload-raylet-kill",
        "oom-capture-end-async",
        "oom-decode-70b-after-good-warmup",
        "oom-decode-one-left-128k",
        "oom-fragmentation-138mib",
        "oom-prefill-512-prompts-full-card",
        "policy-rejecting-500-clients",
        "precision-awq-batch-256",
        "queue-retry-storm-stream-waits",
        "routing-wrong-worker-hashing-never-runs",
        "spec-32-seats-accept-2-54",
        "spec-acceptance-fell-after-upgrade",
        "spec-llamacpp-draft-accept-7-percent",
        "transfer-after-prefill-not-overlapped",
        "transfer-cuda-ipc-same-box",
    }
)
"""Certain here, likely in the report: the window holds what only this cause leaves, such as a share
of a step, an allocator's own sum or two measured speeds. The list may get shorter."""


@cache
def _judged(path: Path) -> tuple[Case, Diagnosis]:
    case = read_case(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    return case, diagnose(case.window, BUILT_IN_RULES)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_confirmed_mechanism_is_named_and_no_other(path: Path) -> None:
    case, diagnosis = _judged(path)
    assert case.expect is not None
    assert diagnosis.mechanism is case.expect.mechanism
    named = {finding.mechanism for finding in diagnosis.findings}
    assert not named & set(case.expect.excluded)
    if case.expect.mechanism is Mechanism.CANNOT_TELL:
        assert 0 < len(diagnosis.needs) <= _MOST_NEEDS
        assert diagnosis.confidence is None


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_nothing_is_certain_that_was_only_likely_when_it_was_confirmed(path: Path) -> None:
    case, diagnosis = _judged(path)
    assert case.expect is not None
    if case.expect.confidence is Confidence.LIKELY and path.stem not in _SEEN_DIRECTLY:
        assert diagnosis.confidence is not Confidence.CERTAIN


def test_what_was_certain_is_named_as_such_no_less_often_than_before() -> None:
    less_sure = [
        case.id
        for case, diagnosis in map(_judged, CASES)
        if case.expect is not None
        and case.expect.confidence is Confidence.CERTAIN
        and diagnosis.confidence is Confidence.LIKELY
    ]
    assert len(less_sure) <= _MOST_LESS_SURE, less_sure


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_figures_that_tell_are_cited(path: Path) -> None:
    missing, telling = _missing(path)
    assert len(missing) <= len(telling) / 2, sorted(missing)


def test_evidence_is_cited_whole_no_less_often_than_before() -> None:
    """Each sentence of a case's evidence with all its figures, and not some of them."""
    items = [not missing for path in CASES for missing in _missing_of_each(path)]
    assert sum(items) / len(items) >= _CITED_WHOLE, f"{sum(items)} of {len(items)}"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_figure_behind_a_name_is_cited_or_listed_as_told(path: Path) -> None:
    """With signal, value, unit, source, time and age, in each finding and each possible one."""
    case, diagnosis = _judged(path)
    answer = diagnosis_as_json(diagnosis)
    for finding in (*answer["findings"], *answer["possible"], *answer["explained"]):
        listed = {(each["name"], each["raw"]) for each in finding["values"]}
        listed |= {(each["name"], each["text"]) for each in finding["told"]}
        stands = set(_behind_names(case, finding["evidence"]))
        assert stands <= listed, (finding["rule"], stands - listed)
        for each in finding["values"]:
            age = case.window.end - each["at"]
            assert all((each["signal"], each["source"]))
            assert each["age_seconds"] == age


def _behind_names(case: Case, evidence: list[str]) -> Iterator[tuple[str, str]]:
    """Names of series and facts in sentences, each with what stands behind it as it was read."""
    read = [(each.origin.name, r.raw) for each in case.window.series for r in each.readings]
    read += [(fact.key, fact.raw) for fact in case.window.facts]
    for name, raw in dict.fromkeys(read):
        whole = rf"(?<![\w.:]){re.escape(name)} {re.escape(raw)}(?![\w%]|[.,]\d| [%KMG])"
        if any(f"{name} {raw}" in each and re.search(whole, each) for each in evidence):
            yield name, raw


def _missing(path: Path) -> tuple[set[float], set[float]]:
    """Figures of the evidence that the finding does not cite, and all of them."""
    case, _ = _judged(path)
    assert case.expect is not None
    telling = _telling(path, " ".join(case.expect.evidence))
    return telling - _cited(path), telling


def _missing_of_each(path: Path) -> list[set[float]]:
    """Of each sentence that has figures, those that the finding does not cite."""
    case, _ = _judged(path)
    assert case.expect is not None
    each = [_telling(path, sentence) for sentence in case.expect.evidence]
    return [telling - _cited(path) for telling in each if telling]


def _telling(path: Path, text: str) -> set[float]:
    """Figures of `text` that the input holds, without small counts as in "3 times", which
    stand in sentences of many kinds."""
    given = _numbers(path.read_text(encoding="utf-8").partition("\nexpect:")[0])
    return {number for number in _numbers(text) & given if number >= 10 or number % 1}


@cache
def _cited(path: Path) -> set[float]:
    first = diagnosis_as_json(_judged(path)[1])["findings"][0]
    return _numbers(json.dumps([first["evidence"], first["against"], first["detail"]]))


def _numbers(text: str) -> set[float]:
    whole = _THOUSANDS.sub(r"\g<1>000", text)
    return {float(found.replace(",", "")) for found in _NUMBER.findall(whole)}
