"""YAML that people write by mistake, and YAML that somebody sends on purpose."""

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.cli.config_output import documents_as_yaml
from controlplane.specs.problem import Position
from controlplane.specs.yaml_reader import MAX_CHARACTERS, MAX_PROBLEMS, read_yaml


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read_yaml("f.yaml", text)[1]]


def data(text: str) -> list[object]:
    sources, found = read_yaml("f.yaml", text)
    assert found == []
    return [source.data for source in sources]


def test_every_value_and_key_keeps_its_place() -> None:
    [source], _ = read_yaml("f.yaml", "# why\nspec:\n  classes:\n    - {name: a, match: 'x'}\n")

    assert source.position(("spec", "classes", 0, "match")) == Position(4, 24)
    assert source.key_position(("spec", "classes", 0, "match")) == Position(4, 17)
    assert source.texts["spec", "classes", 0, "match"] == Position(4, 25)


def test_the_place_of_what_is_missing_is_that_of_its_parent() -> None:
    [source], _ = read_yaml("f.yaml", "kind: Model\nspec: {a: 1}\n")

    assert source.position(("spec", "artifact", "path")) == Position(2, 7)


def test_documents_are_separated_and_empty_ones_left_out() -> None:
    assert data("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    assert data("") == []


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("true", True),
        ("yes", "yes"),
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-3", -3),
        ("012", "012"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2026-11-29", "2026-11-29"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'1'", "1"),
        ("300ms", "300ms"),
        ("99%", "99%"),
    ],
)
def test_plain_scalars_mean_what_they_mean_in_json(text: str, meaning: object) -> None:
    assert data(f"a: [{text}]") == [{"a": [meaning]}]


def test_json_is_read_as_it_is() -> None:
    document = {"kind": "Model", "spec": {"a": [1, 2.5, None, True, 'é\n\t"x"']}}

    assert data(json.dumps(document)) == [document]
    assert data(json.dumps(document, indent=2, ensure_ascii=False)) == [document]


def test_a_duplicate_key_names_both_lines() -> None:
    assert problems("a: 1\nb: {c: 1, c: 2}\na: 2\n") == [
        "f.yaml:2:11: b.c: this key stands here twice: first in line 2; remove one",
        "f.yaml:3:1: a: this key stands here twice: first in line 1; remove one",
    ]


def test_the_same_key_in_two_items_of_a_list_is_no_duplicate() -> None:
    assert data("- {a: 1}\n- {a: 2}\n") == [[{"a": 1}, {"a": 2}]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1, 2", "f.yaml:1:9: this is not YAML: expected ',' or ']'"),
        ("a: b: c", "f.yaml:1:5: this is not YAML: mapping values are not allowed here"),
        ("a:\n\tb: 1", "f.yaml:2:1: this is not YAML: found character '\\t'"),
        ("a: \x01", "f.yaml:1:1: this is not YAML: unacceptable character #x0001"),
        ("a: &x 1\nb: *x", "f.yaml:1:4: a: anchors and aliases are not supported"),
        ("a: !!python/name:os.system x", "f.yaml:1:4: a: tags are not supported"),
        ("a: !!int '1'", "f.yaml:1:4: a: tags are not supported"),
        ("1: x", 'f.yaml:1:1: a key must be text: write "1"'),
        ("true: x", 'f.yaml:1:1: a key must be text: write "true"'),
        ("? [a, b]\n: c", "f.yaml:1:3: a key must be text"),
        ("a: 99999999999999999999", "f.yaml:1:4: a: the number is too large"),
        ("a: " + "9" * 5000, "f.yaml:1:4: a: the number is too large"),
        ("a: 1e999", "f.yaml:1:4: a: 1e999 is no finite number"),
        ("a: .nan", "f.yaml:1:4: a: .nan is no finite number"),
        ('a: "\\ud800"', "f.yaml:1:4: a: the text holds the character U+D800"),
        ('a: "x\\0y"', "f.yaml:1:4: a: the text holds the character U+0000"),
        ('"\\0": y', "f.yaml:1:1: the text holds the character U+0000"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, expected: str) -> None:
    found = problems(text)

    assert found, f"{text!r} was accepted"
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "a: " + "{" * 200_000,
        "[{" * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "[\n" * 100_000,
        "a: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [" + "*c," * 50_000 + "]",
        "!" * 100_000,
        "k: v\n" * 40_000,
        "- v\n" * 60_000,
        "---\nx\n" * 40_000,
        "x" * (MAX_CHARACTERS + 1),
    ],
    ids=lambda text: text[:10],
)
def test_hostile_files_are_refused_soon_and_with_few_words(text: str) -> None:
    started = time.process_time()
    found = problems(text)

    assert 1 <= len(found) <= MAX_PROBLEMS
    assert max(map(len, found)) < 300
    assert time.process_time() - started < 10


def test_one_bad_document_does_not_hide_the_others() -> None:
    sources, found = read_yaml("f.yaml", "a: .inf\n---\nb: 1\n---\nc: .inf\n")

    assert [source.data for source in sources] == [{"a": None}, {"b": 1}, {"c": None}]
    assert [problem.line for problem in found] == [1, 5]


TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\x85\u2028\u2029\ufeff"),
    max_size=30,
)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(
        ["yes", "1e3", "012", "null", "~", "1:30", ".5", "+1", "-", "a: b", "#", "="]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, JSON_VALUES, min_size=1, max_size=4))
def test_what_is_printed_as_yaml_is_read_back_the_same(document: dict[str, object]) -> None:
    assert data(documents_as_yaml([document])) == [document]


@given(st.text(max_size=200))
def test_any_text_at_all_is_read_or_refused(text: str) -> None:
    sources, found = read_yaml("f.yaml", text)

    assert all(problem.line >= 1 and problem.column >= 1 for problem in found)
    json.dumps([source.data for source in sources], allow_nan=False)


YAML_PIECES = st.lists(
    st.sampled_from(
        ["a", "b: ", "- ", "\n", "  ", "[", "]", "{", "}", ",", "'", '"', "|", ">", "&x ", "*x",
         "!t ", "---\n", "...\n", "%YAML 1.2\n", "#", "? ", ": ", "<<: ", "1", ".inf", "\t", "\\"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


@given(YAML_PIECES)
def test_any_pile_of_yaml_syntax_is_read_or_refused(text: str) -> None:
    sources, _ = read_yaml("f.yaml", text)

    json.dumps([source.data for source in sources], allow_nan=False)


def test_aliases_are_complained_about_once_however_many_there_are() -> None:
    bomb = "a: &a [x, x]\n" + "\n".join(
        f"{name}: &{name} [*{before}, *{before}]"
        for before, name in itertools.pairwise("abcdefghij")
    )
    assert problems(bomb) == ["f.yaml:1:4: a: anchors and aliases are not supported: write it out"]
