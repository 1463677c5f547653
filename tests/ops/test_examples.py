"""Documents that people start from are documents that would be taken."""

from pathlib import Path

import pytest

from controlplane.specs.documents import load_documents
from controlplane.specs.installed import INSTALLED_CHECKS
from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.yaml_reader import read_yaml

# What `pilothouse simulate` reads is never applied.
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "ops" / "examples").glob("*/*.yaml")
    if path.parent.name != "simulate" and path.name != "scenario.yaml"
)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that `attach/launched.yaml` says somebody grants."""
    for name in ("llama-server", "vllm", "python"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    granted = f"{tmp_path}/llama-server:{tmp_path}/vllm:sglang={tmp_path}/python"
    monkeypatch.setenv("ENGINE_PROGRAMS", granted)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_has_no_problems(path: Path) -> None:
    loaded = load_documents([(path.name, path.read_text())], checks=INSTALLED_CHECKS)
    assert loaded.problems == ()
    assert loaded.documents


def test_the_scenario_of_overload_can_be_simulated() -> None:
    path = Path(__file__).parents[2] / "ops/examples/overload/scenario.yaml"
    [source], problems = read_yaml(path.name, path.read_text())
    document, more = read_scenario(source, path.parent)
    assert [*problems, *more] == []
    assert document is not None
