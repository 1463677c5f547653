"""What is found out once for all lines of a template is what each of them would say by itself."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from controlplane.diagnosis.sources.log.envelope import open_line
from controlplane.diagnosis.sources.log.line_form import (
    MOST_FORMS,
    LineForm,
    LineForms,
    Saying,
    template_of,
)
from controlplane.diagnosis.sources.log.private import may_hold_private, without_private
from controlplane.diagnosis.sources.log.shape import first_match
from controlplane.diagnosis.sources.log.stamp import LOOSE_STAMP
from controlplane.diagnosis.sources.log.tables import SHAPES, STATISTICS

INCIDENTS = Path(__file__).parents[4] / "incidents"
ID = "chatcmpl-0123456789abcdef0123456789abcdef"


@cache
def lines() -> tuple[str, ...]:
    """Of all logs of all incidents, one of each template."""
    found: dict[bytes, str] = {}
    for path in sorted(INCIDENTS.glob("*.yaml")):
        for part in YAML(typ="safe").load(path.read_text(encoding="utf-8"))["input"]:
            for line in part["text"].split("\n") if part["kind"] == "log" else ():
                found.setdefault(template_of(line), line)
    return tuple(found.values())


def with_other_digits(line: str, seed: int) -> str:
    draw = random.Random(seed)
    return "".join(str(draw.randrange(10)) if sign in "0123456789" else sign for sign in line)


def said(form: LineForm, line: str) -> object:
    """All that a form tells of a line."""
    if not form.is_plain:
        return form.hit, form.is_known, form.may_hold_private, form.stamp(line)
    envelope = form.open(line)
    return (
        *(form.hit, form.is_known, form.may_hold_private, form.stamp(line)),
        *(envelope, form.saying.level_match, form.saying.has_settings),
        first_match(form.saying.shapes, envelope.text),
        [
            (each, [place.read(envelope.text) for place in places])
            for each, places in form.saying.statistics
        ],
    )


def test_there_are_lines_of_incidents_to_try() -> None:
    assert len(lines()) > 50


@pytest.mark.parametrize("seed", range(3))
def test_lines_that_differ_in_digits_say_what_they_say_by_themselves(seed: int) -> None:
    for line in lines():
        twin = with_other_digits(line, seed)
        forms = LineForms()
        forms.of(line)
        assert said(forms.of(twin), twin) == said(LineForm(twin), twin)


@given(
    line=st.sampled_from(SHAPES.shapes).flatmap(lambda shape: st.from_regex(shape.pattern)),
    seed=st.integers(0, 9),
)
def test_so_do_lines_that_the_book_of_shapes_allows(line: str, seed: int) -> None:
    twin = with_other_digits(line, seed)
    forms = LineForms()
    forms.of(line)
    assert said(forms.of(twin), twin) == said(LineForm(twin), twin)


def test_no_line_is_passed_over_that_fits_a_shape_or_is_a_line_of_statistics() -> None:
    for line in lines():
        form = LineForm(line)
        for envelope in open_line(line):
            fits = SHAPES.match(envelope.text)
            is_statistics = any(each.start.search(envelope.text) for each in STATISTICS)
            assert form.is_known or (fits is None and not is_statistics)
            assert first_match(Saying(envelope).shapes, envelope.text) == fits


def test_a_plain_line_is_opened_as_any_is() -> None:
    for line in lines():
        form = LineForm(line)
        if form.is_plain:
            assert [form.open(line)] == open_line(line)


def test_only_what_may_hold_something_private_is_changed() -> None:
    for line in lines():
        assert may_hold_private(line) or without_private(line) == line


def test_a_word_with_a_digit_of_its_own_is_no_other_word() -> None:
    forms = LineForms()
    forms.of("generating GPU P3P access cache")
    assert "P2P" in forms.of("generating GPU P2P access cache").hit


def test_lines_with_ids_of_their_own_are_of_one_form() -> None:
    other = ID.replace("abc", "fed")
    forms = LineForms()
    assert forms.of(f"Added request {ID}.") is forms.of(f"Added request {other}.")
    assert forms.of(f"Added request {ID}a") is not forms.of(f"Added request {other}b")


def test_what_is_remembered_is_bounded() -> None:
    forms = LineForms()
    first = forms.of("a")
    for number in range(MOST_FORMS):
        forms.of("b" * (number % 900) + "c" * (number // 900 + 1))
    assert forms.of("a") is not first


def test_a_time_that_only_some_digits_make_is_found_where_it_is() -> None:
    line, twin = "at 99:99:99 of 2026-11-30 08:00:00", "12:34:56 of 2026-11-30 08:00:01"
    forms = LineForms()
    for each in (line, twin, twin.replace("12:", "72:"), "12:34:56"):
        assert forms.of(each).stamp(each) == LineForm(each).stamp(each) == open_line(each)[0].stamp


def no_digits(pattern: str) -> Iterator[str]:
    for quantifier in ("{1,9}", "{3,9}", "{10}", "{9}", "{4}", "{3}", "{0,2}"):
        pattern = pattern.replace(quantifier, "")
    for group in LOOSE_STAMP.groupindex:
        pattern = pattern.replace(f"<{group}>", "")
    yield from (sign for sign in pattern if sign.isdigit())


def test_what_is_asked_once_for_all_lines_asks_for_no_digit() -> None:
    assert not list(no_digits(LOOSE_STAMP.pattern))
    for each in STATISTICS:
        assert not any(map(str.isdigit, each.start.pattern))
