"""The difference of two documents: by path, by name, in their own words."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.specs.diff import ChangeKind, diff_documents
from tests.controlplane.config_documents import DESIGN_CONTRACT, DESIGN_POLICY, documents


def canonical(text: str) -> dict[str, Any]:
    [document] = documents(text)
    return document.canonical


def said(before: str | None, after: str | None) -> list[str]:
    old = None if before is None else canonical(before)
    new = None if after is None else canonical(after)
    return [str(change) for change in diff_documents(old, new)]


def test_a_changed_field_is_named_by_its_place() -> None:
    after = DESIGN_POLICY.replace("max_queue: 64", "max_queue: 32")
    assert said(DESIGN_POLICY, after) == ["classes[interactive].max_queue: 64 -> 32"]


def test_other_spellings_of_the_same_quantity_do_not_differ() -> None:
    after = DESIGN_CONTRACT.replace("300ms", "0.3s").replace("99%", "99.0%")
    assert said(DESIGN_CONTRACT, after) == []


def test_quantities_are_shown_in_their_canonical_unit() -> None:
    after = DESIGN_CONTRACT.replace("300ms", "1500ms")
    assert said(DESIGN_CONTRACT, after) == [
        "classes.interactive.objectives[ttft].at_most: 300ms -> 1500ms"
    ]
    assert said(DESIGN_CONTRACT, DESIGN_CONTRACT.replace("300ms", "60000ms")) == [
        "classes.interactive.objectives[ttft].at_most: 300ms -> 1m"
    ]


def test_sizes_and_bounds_of_the_queue_are_shown_as_they_are_written() -> None:
    before = DESIGN_POLICY.replace("limits: {", "limits: {queue: {bytes: 1024KiB}, ")
    after = DESIGN_POLICY.replace("limits: {", "limits: {queue: {bytes: 3MiB, tokens: 900}, ")
    assert said(before, before.replace("1024KiB", "1MiB")) == []
    assert said(before, after) == [
        "+ limits.queue.tokens: 900",
        "limits.queue.bytes: 1MiB -> 3MiB",
    ]


def test_what_was_added_and_removed_is_told_whole() -> None:
    after = DESIGN_POLICY.replace(", aging: 1/s", "").replace(
        "  limits:", "    - {name: bulk, priority: 1}\n  limits:"
    )
    assert said(DESIGN_POLICY, after) == [
        "- classes[batch].aging: 1/s",
        "+ classes[bulk]: {name: bulk, priority: 1}",
    ]


def test_a_class_that_only_changed_places_is_reordered_and_otherwise_the_same() -> None:
    interactive, batch = DESIGN_POLICY.splitlines()[4:6]
    after = DESIGN_POLICY.replace(f"{interactive}\n{batch}", f"{batch}\n{interactive}")
    [change] = diff_documents(canonical(DESIGN_POLICY), canonical(after))
    assert change.kind is ChangeKind.REORDERED
    assert str(change) == "classes, order: [interactive, batch] -> [batch, interactive]"


def test_a_list_of_plain_values_is_one_value() -> None:
    after = DESIGN_POLICY.replace("shed: [batch]", "shed: [batch, interactive]")
    assert said(DESIGN_POLICY, after) == ["overload.shed: [batch] -> [batch, interactive]"]


def test_a_new_document_adds_every_field_and_a_gone_one_removes_it() -> None:
    assert [line.split(":")[0] for line in said(None, DESIGN_CONTRACT)] == [
        "+ boundary", "+ window", "+ classes",
    ]  # fmt: skip
    assert all(line.startswith("- ") for line in said(DESIGN_CONTRACT, None))


def test_true_is_not_one_and_odd_keys_are_quoted() -> None:
    before, after = {"spec": {"a.b": 1, "n": 1}}, {"spec": {"a.b": True, "n": 1.0}}
    [change] = diff_documents(before, after)
    assert str(change) == '["a.b"]: 1 -> true'


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"name": st.text(max_size=2), "x": inner}), max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_a_document_never_differs_from_itself(spec: dict[str, Any]) -> None:
    assert diff_documents({"spec": spec}, {"spec": spec}) == []


@given(
    st.dictionaries(st.text(max_size=2), VALUES, max_size=3),
    st.dictionaries(st.text(max_size=2), VALUES, max_size=3),
)
def test_two_ways_agree_on_where_documents_differ(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    there = {change.path for change in diff_documents({"spec": one}, {"spec": other})}
    back = {change.path for change in diff_documents({"spec": other}, {"spec": one})}
    assert there == back
