"""The document of `pilothouse simulate`, as people write it and as they get it wrong."""

from decimal import Decimal

import pytest

from controlplane.specs.prefill_case import PrefillCaseDocument, read_prefill_case
from controlplane.specs.problem import Problem
from controlplane.specs.yaml_reader import read_yaml

TEXT = """\
cost_model_ms: {iteration: 1.0, per_prompt_token: 0.1, per_decode_step: 1}
given:
  slots: 3
  total_batch_tokens: 15
  decoding_at_zero: {A: 5}
  arrivals:
    - {request: C, at_ms: 2.5, prompt: 12, decode_after_first: 0}
prompt_budgets: [4]
"""


def read(text: str) -> tuple[PrefillCaseDocument | None, list[Problem]]:
    sources, problems = read_yaml("case.yaml", text)
    assert problems == []
    return read_prefill_case(sources[0])


def accepted(text: str) -> PrefillCaseDocument:
    document, problems = read(text)
    assert problems == []
    assert document is not None
    return document


def refused(text: str) -> list[str]:
    document, problems = read(text)
    assert document is None
    return [str(problem) for problem in problems]


def test_numbers_are_the_decimals_that_are_written() -> None:
    case = accepted(TEXT).case

    assert case.cost.per_prompt_token == Decimal("0.1")
    assert case.arrivals[0].at_ms == Decimal("2.5")


def test_a_whole_number_may_be_written_with_a_point_or_an_exponent() -> None:
    document = accepted(TEXT.replace("prompt: 12", "prompt: 12.0").replace("[4]", "[1e3, 4]"))

    assert document.case.arrivals[0].num_prompt_tokens == 12
    assert document.prompt_budgets == (1000, 4)


def test_those_who_decode_keep_the_order_in_which_they_are_written() -> None:
    case = accepted(TEXT.replace("{A: 5}", "{z: 1, A: 5, m: 2}")).case

    assert list(case.decoding.items()) == [("z", 1), ("A", 5), ("m", 2)]


def test_rereading_costs_nothing_where_it_is_left_out() -> None:
    assert accepted(TEXT).case.cost.per_reread_token == 0
    written = TEXT.replace("step: 1}", "step: 1, per_earlier_prompt_position_reread: 0.1}")
    assert accepted(written).case.cost.per_reread_token == Decimal("0.1")


def test_rules_and_a_note_may_stand_there_for_readers() -> None:
    written = TEXT.replace("  slots", "  rules: [one, two]\n  note: for a talk\n  slots")

    assert accepted(written) == accepted(TEXT)


def test_the_golden_key_may_stand_around_it() -> None:
    indented = "".join(f"  {line}\n" for line in TEXT.splitlines())

    assert accepted(f"chunked_prefill:\n{indented}") == accepted(TEXT)
    [problem] = refused(f"chunked_prefill:\n{indented}".replace("[4]", "[0]"))
    assert problem.startswith("case.yaml:9:20: chunked_prefill.prompt_budgets[0]: ")


@pytest.mark.parametrize("empty", ["", " {}"])
def test_nobody_has_to_decode_and_nobody_has_to_arrive(empty: str) -> None:
    assert accepted(TEXT.replace(" {A: 5}", empty)).case.decoding == {}
    assert accepted(TEXT.replace("  decoding_at_zero: {A: 5}\n", "")).case.decoding == {}
    without = TEXT.replace(
        "\n    - {request: C, at_ms: 2.5, prompt: 12, decode_after_first: 0}", ""
    )
    assert accepted(without).case.arrivals == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("iteration: 1.0", "iteraton: 1", "1:17: cost_model_ms.iteraton: there is no such key"),
        ("iteration: 1.0, ", "", "1:16: cost_model_ms.iteration: is required"),
        ("0.1", "0.1ms", "1:51: cost_model_ms.per_prompt_token: must be a number of milliseconds"),
        ("0.1", "-1", "1:51: cost_model_ms.per_prompt_token: must be at least 0"),
        ("0.1", "true", "1:51: cost_model_ms.per_prompt_token: must be a number of milliseconds"),
        ("slots: 3", "slots: 0", "3:10: given.slots: should be greater than or equal to 1"),
        ("slots: 3", "slots: 2.5", "3:10: given.slots: must be a whole number"),
        ("prompt: 12", "prompt: 0", "7:40: given.arrivals[0].prompt: should be"),
        ("at_ms: 2.5, ", "", "7:7: given.arrivals[0].at_ms: is required"),
        ("request: C", "request: A", "7:17: given.arrivals[0].request: another request is"),
        ("{A: 5}", "{A: 5, B: 1, E: 1, F: 1}", "3:10: given.slots: is 3, but 4 requests decode"),
        ("tokens: 15", "tokens: 0", "4:23: given.total_batch_tokens: should be greater"),
        ("prompt: 12", "prompt: 100000001", "3:3: given: asks for 100000006 prompt tokens"),
        ("prompt: 12", "prompt: 5e6", "8:18: prompt_budgets[0]: with 4, up to 1250005 decode"),
        ("{A: 5}", "{A: 1000001}", "8:18: prompt_budgets[0]: with 4, up to 1000004 decode"),
        ("[4]", "[]", "8:17: prompt_budgets: needs at least 1"),
        ("[4]", "4", "8:17: prompt_budgets: must be a list"),
        ("prompt_budgets: [4]", "expect: []", "8:1: expect: there is no such key here"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(old: str, new: str, said: str) -> None:
    assert old in TEXT

    told = refused(TEXT.replace(old, new, 1))

    assert [line for line in told if line.startswith(f"case.yaml:{said}")], told


@pytest.mark.parametrize("text", ["[]", "a", "chunked_prefill: 3"])
def test_what_is_no_mapping_is_told_what_it_should_hold(text: str) -> None:
    [problem] = refused(text)

    assert problem.endswith("must be a mapping with cost_model_ms, given, prompt_budgets")
