"""`pilothouse runbook`: every page by its name and by its mechanism, without a control plane."""

from click.testing import CliRunner

from controlplane.cli import main
from controlplane.runbooks import find_runbook, runbook_names


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["runbook", *arguments])
    return result.exit_code, result.output


def test_without_a_name_all_are_listed() -> None:
    code, output = run()
    assert code == 0
    listed = [line.split()[0] for line in output.splitlines()]
    assert listed == runbook_names()
    assert "README" not in listed


def test_one_is_found_by_its_name() -> None:
    code, output = run("replica-crash-loop")
    assert code == 0
    assert output.startswith("# ")
    assert "## Mitigation" in output


def test_a_mechanism_means_its_page() -> None:
    name = next(name for name in runbook_names() if name.startswith("replica-"))
    assert find_runbook(name.replace("-", ".", 1)) == find_runbook(name)


def test_an_unknown_one_is_told_with_what_is_near() -> None:
    code, output = run("replica-crash-lop")
    assert code == 4
    assert "did you mean replica-crash-loop?" in output
    for name in ("../README", "../../README.md", ""):
        assert run(name)[0] == 4, name
