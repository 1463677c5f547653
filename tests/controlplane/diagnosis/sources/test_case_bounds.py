"""A case that is too large is refused at once, whatever makes it large."""

import io

import pytest

from controlplane.diagnosis.sources.case import CaseError, read_case
from controlplane.diagnosis.sources.case_bounds import MOST_CHARACTERS, MOST_VALUES
from controlplane.diagnosis.sources.files import InputError, read_inputs

_LEVELS = "".join(
    f"    {name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMB = f"input:\n- kind: gateway\n  values:\n    a: &a [x]\n{_LEVELS}"
MANY = f"input: [{'x, ' * 20_000}{'y' * 150_000}]\n"
TEXTS = "input:\n- &a {kind: log, text: " + "'" + "x" * 90_000 + "'}\n" + "- *a\n" * 100


@pytest.mark.parametrize("text", [BOMB, MANY])
def test_too_many_values_are_refused(text: str) -> None:
    with pytest.raises(CaseError, match=f"more than {MOST_VALUES} values"):
        read_case(text, "case.yaml")


def test_a_text_that_is_named_too_often_is_refused() -> None:
    with pytest.raises(CaseError, match="its values have more than 8 million characters"):
        read_case(TEXTS, "case.yaml")


def test_of_a_file_no_more_than_a_case_may_have_is_read() -> None:
    file = io.BytesIO(b"input:\n" + b"# a note\n" * (2 * MOST_CHARACTERS // 9))

    with pytest.raises(InputError, match="it has more than 8 million characters"):
        read_inputs(["-"], file)
    assert 0 < file.tell() < 1.2 * MOST_CHARACTERS


def test_an_alias_is_read_as_what_it_stands_for() -> None:
    case = read_case("input:\n- kind: gateway\n  values: {a_s: &a 3, b_s: *a}\n", "case.yaml")

    assert [fact.value for fact in case.window.facts] == [3.0, 3.0]
