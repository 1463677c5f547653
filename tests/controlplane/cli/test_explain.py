"""`pilothouse explain`."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import TypeAdapter

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.known_names import known_names
from controlplane.specs.documents import load_documents
from controlplane.specs.field_docs import find_field, find_variant
from controlplane.specs.kind import Kind
from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.scenario_faults import FaultSpec
from controlplane.specs.yaml_reader import read_yaml
from dataplane import names


def run(what: str) -> Result:
    return CliRunner().invoke(main, ["explain", what])


@pytest.mark.parametrize("kind", Kind)
def test_the_example_of_every_kind_is_a_document_that_is_accepted(kind: Kind) -> None:
    result = run(kind)

    assert result.exit_code == 0, result.output
    _, _, example = result.stdout.partition("Example:\n")
    text = "\n".join(line.removeprefix("  ") for line in example.splitlines())
    loaded = load_documents([("example.yaml", text)])
    assert loaded.problems == ()
    assert [document.kind for document in loaded.documents] == [kind]


def test_the_example_of_a_scenario_is_one_that_can_be_simulated() -> None:
    result = run("scenario")

    assert result.exit_code == 0, result.output
    assert "policy.classes[].aging" in result.stdout
    _, _, example = result.stdout.partition("Example:\n")
    text = "\n".join(line.removeprefix("  ") for line in example.splitlines())
    [source], _ = read_yaml("example.yaml", text)
    document, problems = read_scenario(source, Path())
    assert problems == []
    assert document is not None
    one = run("scenario.arrivals.turns.wait")
    assert "From an answer until the next turn arrives" in one.stdout


def test_one_field_is_told_with_type_bounds_default_and_an_example() -> None:
    shown = run("policy.classes.max_queue").stdout

    assert shown.startswith("AdmissionPolicy.classes[].max_queue: How many of its requests")
    for line in (
        "Type:     whole number",
        "Bounds:   at least 0, at most 1,000,000",
        "Default:  512",
        "    - max_queue: 512",
    ):
        assert f"\n{line}\n" in shown


def test_words_are_told_with_their_meaning_and_groups_with_their_fields() -> None:
    assert "  full      All it may generate.\n" in run("policy.limits.kv.reserve").stdout
    assert "overload.degrade.when*" in run("policy.overload.degrade").stdout


def test_metrics_are_listed_with_type_and_meaning() -> None:
    lines = {line.split()[0]: line for line in run("metrics").stdout.splitlines()}

    assert set(lines) == {
        value
        for name, value in vars(names).items()
        if name.isupper() and str(value).startswith("pilothouse_")
    }
    assert "histogram  Arrival until the first token" in lines[names.GATEWAY_TTFT_SECONDS]
    assert "gauge      KV blocks of the pool." in lines[names.REPLICA_KV_BLOCKS]


@pytest.mark.parametrize(
    "name",
    [each.name for each in known_names() if each.sort in ("metric", "span")],
)
def test_every_metric_and_span_has_a_meaning(name: str) -> None:
    [found] = [each for each in known_names() if each.name == name]
    assert found.doc, "give the constant in dataplane/names.py a text below it"


def test_one_name_is_found_as_it_is_scraped() -> None:
    assert names.GATEWAY_TTFT_SECONDS in run(f"{names.GATEWAY_TTFT_SECONDS}_bucket").stdout
    assert "attribute" in run(names.ATTRIBUTE_TENANT).stdout
    assert "until the last write" in run("request").stdout


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("Polcy.classes", "did you mean"),
        ("policy.clases", "did you mean AdmissionPolicy.classes?"),
        ("pilothouse_gateway_ttft_second", None),
        ("some-request", "A request is shown by `pilothouse trace ID`"),
    ],
)
def test_what_is_unknown_names_what_is_near(what: str, said: str | None) -> None:
    result = run(what)

    if said is None:
        assert result.stdout.startswith(names.GATEWAY_TTFT_SECONDS)
        return
    assert result.exit_code == 4
    assert said in result.stderr


@pytest.mark.parametrize("what", ["3f9c12ab", "0af7651916cd43dd8448eb211c80319c"])
def test_what_looks_like_the_id_of_a_request_is_asked_of_the_control_plane(what: str) -> None:
    closed = {"PILOTHOUSE_URL": "http://127.0.0.1:1"}
    result = CliRunner().invoke(main, ["explain", what], env=closed)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "http://127.0.0.1:1" in result.stderr


FAULTS = [word for word, _ in find_field("Scenario", "faults").choices]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_field_of_every_fault_is_explained(fault: str) -> None:
    variant = find_variant("Scenario", f"faults.{fault}")

    assert variant is not None
    names = [field.path.removeprefix(f"faults[].{fault}.") for field in variant.fields]
    assert {"at", "for", "intensity", "seed"} <= set(names)
    assert all(len(field.doc) > 5 for field in variant.fields), "write a text below the field"
    # The example is one that is accepted.
    TypeAdapter(FaultSpec).validate_python(variant.example["faults"][0], strict=False)


def test_one_fault_is_told_with_its_fields_and_an_example() -> None:
    shown = run("Scenario.faults.retry_storm").stdout

    assert shown.startswith("Scenario.faults[].retry_storm: Clients leave when nothing comes")
    for name in ("at", "for", "intensity", "seed", "tenants", "share", "patience", "backoff"):
        assert re.search(rf"^  {name} +\S", shown, re.MULTILINE), name
    assert "    - fault: retry_storm\n" in shown
    assert run("scenario.faults.retry_storm.patience").stdout == shown
    assert "explain Scenario.faults." in run("scenario.faults").stdout
    wrong = run("scenario.faults.retry_storm.patiense")
    assert wrong.exit_code == ExitCode.NOT_FOUND
    assert "did you mean patience? Its fields: at, for" in wrong.stderr
