"""`pilothouse slo presets`: listed, printed, and taken by `apply` as they are."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.slo.preset import presets
from tests.controlplane.config_server import ConfigServer, serve_config


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfigServer]:
    with serve_config(tmp_path_factory.mktemp("state")) as served:
        yield served


def _run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=given)


def test_all_presets_are_listed_with_what_each_is_for() -> None:
    listed = _run("slo", "presets").output
    assert all(each.name in listed and each.purpose in listed for each in presets())


@pytest.mark.parametrize("name", [each.name for each in presets()])
def test_what_is_printed_is_applied_as_it_is_and_waits_for_a_deployment_alone(
    server: ConfigServer, name: str
) -> None:
    printed = _run("slo", "presets", name)
    assert printed.exit_code == 0
    files = [{"name": f"{name}.yaml", "text": printed.stdout}]
    answer = server.http.post("/api/v1/apply", json={"files": files})
    assert answer.status_code == 200, answer.text
    assert [each["revision"] for each in answer.json()["applied"]] == [f"{name}@1"]
    assert [each["key"] for each in answer.json()["warnings"]] == ["metadata.name"]


def test_a_preset_reaches_apply_through_a_pipe(server: ConfigServer) -> None:
    printed = _run("slo", "presets", "streaming-voice").stdout
    text = printed.replace("name: streaming-voice", "name: spoken")
    applied = _run("apply", "-f", "-", "--url", server.url, given=text)
    assert applied.exit_code == 0, applied.output
    assert "spoken@1" in applied.output


def test_an_unknown_preset_is_refused_with_those_that_there_are() -> None:
    refused = _run("slo", "presets", "chat")
    assert refused.exit_code == ExitCode.NOT_FOUND
    assert "interactive-chat" in refused.output
