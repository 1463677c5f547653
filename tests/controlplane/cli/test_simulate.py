"""`pilothouse simulate`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode

ROOT = Path(__file__).parents[3]
GOLDEN: dict[str, Any] = YAML(typ="safe").load(ROOT / "tests/golden/scheduling.yaml")
EXAMPLE = ROOT / "ops/examples/simulate/chunked-prefill.yaml"


def simulate(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=text)


def as_document(**changes: Any) -> dict[str, Any]:
    """The golden case with budgets in place of what is expected."""
    document = {key: GOLDEN["chunked_prefill"][key] for key in ("cost_model_ms", "given")}
    return {**document, "prompt_budgets": [12, 4, 1], **changes}


def answer(document: dict[str, Any]) -> list[dict[str, Any]]:
    result = simulate("-", "-o", "json", text=json.dumps(document))
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_the_example_gives_the_golden_tables_budget_by_budget() -> None:
    result = simulate(str(EXAMPLE), "-o", "json")

    assert result.exit_code == 0, result.output
    expected = GOLDEN["chunked_prefill"]["expect"]
    found = json.loads(result.stdout)
    assert [
        {key: entry[key] for key in wanted} for wanted, entry in zip(expected, found, strict=True)
    ] == expected
    assert all(entry.keys() == expected[0].keys() for entry in found)


def test_yaml_json_and_standard_input_are_the_same() -> None:
    assert answer(as_document()) == json.loads(simulate(str(EXAMPLE), "-o", "json").stdout)


def test_whole_numbers_are_whole_and_decimals_are_as_a_person_writes_them() -> None:
    text = simulate(str(EXAMPLE), "-o", "json").stdout

    assert '"finish_ms": 23,' in text
    assert '"finish_ms": 26.2,' in text
    assert '"C": 30.6,' in text


@pytest.mark.parametrize(
    ("decoding", "gap"),
    [({}, {}), ({"x": 2}, {"x": 3}), ({"z": 1, "x": 2, "y": 1}, {"z_or_x_or_y": 4})],
)
def test_the_largest_gap_is_of_those_who_decode_at_zero(
    decoding: dict[str, int], gap: dict[str, float]
) -> None:
    bounds = {"slots": 8, "total_batch_tokens": 20, "decoding_at_zero": decoding}
    bounds["arrivals"] = [{"request": "n", "at_ms": 1, "prompt": 2, "decode_after_first": 1}]

    [entry] = answer(as_document(given=bounds, prompt_budgets=[50]))

    assert entry["largest_gap_ms"] == gap


def test_people_get_a_line_for_every_budget_and_one_for_every_iteration() -> None:
    shown = simulate(str(EXAMPLE)).stdout.splitlines()

    assert shown[0].split("  ")[0] == "PROMPT BUDGET"
    assert shown[2].split() == ["4", "15.2", "19.2", "5", "26.2", "7", "7", "14", "11", "12"]
    assert "prompt budget 4, ms" in shown
    assert "  12.4-17.2  A:D1 C:P4" in shown


def test_every_mistake_is_told_with_its_line_and_nothing_is_simulated() -> None:
    text = EXAMPLE.read_text().replace("slots: 3", "slot: 3").replace("[12, 4, 1]", "[12, x]")

    result = simulate("-", text=text)

    assert result.exit_code == ExitCode.USAGE
    assert result.stdout == ""
    assert "<stdin>:9:3: given.slot: there is no such key here; did you mean slots?" in (
        result.stderr
    )
    assert "<stdin>:15:22: prompt_budgets[1]: must be a whole number" in result.stderr
    assert result.stderr.endswith("3 problems; nothing was simulated\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "<stdin> is empty"),
        ("a: [", "this is not YAML"),
        ("a: 1\n---\nb: 1", "<stdin>:3:1: one document at a time"),
    ],
)
def test_what_is_no_document_is_refused(text: str, said: str) -> None:
    result = simulate("-", text=text)

    assert result.exit_code == ExitCode.USAGE
    assert said in result.stderr


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    missing = simulate(str(tmp_path / "none.yaml"))
    (tmp_path / "a.yaml").touch()
    (tmp_path / "b.yaml").touch()
    folder = simulate(str(tmp_path))

    assert (missing.exit_code, folder.exit_code) == (ExitCode.USAGE, ExitCode.USAGE)
    assert "No such file" in missing.stderr
    assert "is a folder with 2 files" in folder.stderr


def test_a_name_cannot_command_the_terminal() -> None:
    bounds = {"slots": 1, "total_batch_tokens": 1, "decoding_at_zero": {"a\x1b[2J": 1}}
    document = json.dumps(as_document(given=bounds, prompt_budgets=[1]))

    result = simulate("-", text=document)

    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
