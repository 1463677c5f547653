"""One mechanism, as the engines and people that it happens to say it: short windows in other words.

The files beside this one hold cases without their history; each says what it has to be called.
"""

from functools import cache
from pathlib import Path

import pytest

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import Case, read_case

_FILES = sorted((Path(__file__).parent / "windows").glob("*.yaml"))


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(
        read_case(text, f"{file.name}, document {number}")
        for file in _FILES
        for number, text in enumerate(file.read_text().split("\n---\n"), 1)
    )


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.id)
def test_it_is_called_by_its_name_in_whatever_words(case: Case) -> None:
    assert case.expect is not None
    assert diagnose(case.window, BUILT_IN_RULES).mechanism is case.expect.mechanism


def test_every_window_has_a_name_of_its_own() -> None:
    names = [case.id for case in _cases()]
    assert len(set(names)) == len(names)
