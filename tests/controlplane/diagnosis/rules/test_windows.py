"""One mechanism, as the engines and people that it happens to say it: short windows in other words.

The files beside this one hold cases without their history; each says what it has to be called.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.case import read_case


class _Written(NamedTuple):
    """One case as it stands in its file: to read all takes seconds, which each process that
    collects tests would spend."""

    id: str
    text: str
    place: str


def _written() -> Iterator[_Written]:
    for file in sorted((Path(__file__).parent / "windows").glob("*.yaml")):
        for number, text in enumerate(file.read_text().split("\n---\n"), 1):
            place = f"{file.name}, document {number}"
            found = re.search(r"^id: (\S+)$", text, re.MULTILINE)
            assert found is not None, f"{place} has no id"
            yield _Written(found[1], text, place)


_CASES = tuple(_written())


@pytest.mark.parametrize("written", _CASES, ids=lambda written: written.id)
def test_it_is_called_by_its_name_in_whatever_words(written: _Written) -> None:
    case = read_case(written.text, written.place)
    assert case.expect is not None
    assert diagnose(case.window, BUILT_IN_RULES).mechanism is case.expect.mechanism


def test_every_window_has_a_name_of_its_own() -> None:
    names = [written.id for written in _CASES]
    assert len(set(names)) == len(names)
