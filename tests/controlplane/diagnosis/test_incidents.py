"""Every incident from the field is named as it was finally confirmed, with the figures that tell.

The cases lie in `tests/incidents/`; what each expects is in its `expect`.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest

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
def test_the_figures_that_tell_are_cited(path: Path) -> None:
    case, diagnosis = _judged(path)
    assert case.expect is not None
    answer = diagnosis_as_json(diagnosis)
    first = answer["findings"][0]
    cited = _numbers(json.dumps([first["evidence"], first["against"], first["detail"]]))
    given = _numbers(path.read_text(encoding="utf-8").partition("\nexpect:")[0])
    wanted = _numbers(" ".join(case.expect.evidence)) & given
    # Such as the 30 of "30 s": small counts stand in sentences of many kinds.
    telling = {number for number in wanted if number >= 10 or number % 1}
    missing = telling - cited
    assert len(missing) <= len(telling) / 2, sorted(missing)


def _numbers(text: str) -> set[float]:
    whole = _THOUSANDS.sub(r"\g<1>000", text)
    return {float(found.replace(",", "")) for found in _NUMBER.findall(whole)}
