"""`pilothouse slo dashboards`, against a control plane that listens."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.store.revisions import apply_documents
from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    documents,
)
from tests.controlplane.control_plane_server import serve_control_plane
from tests.dashboards.grafana_stand_in import EDITOR, VIEWER, grafana_stand_in

CHAT = """\
kind: Deployment
metadata: {name: assistant}
spec: {model: smollm2, engine: attached, policy: chat, replicas: 0, contract: chat}
"""
GENERAL = {
    f"pilothouse-{name}.json" for name in ("fleet", "deployment", "admission", "controlplane")
}
OWN = "pilothouse-slo-assistant.json"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_control_plane(tmp_path_factory.mktemp("state")) as (served, opened):
        with opened.config_db.session() as session:
            texts = documents(MODEL, ENGINE, DESIGN_CONTRACT, DESIGN_POLICY, CHAT)
            apply_documents(session, texts, author="ann", reason="", clock=time.time_ns)
        yield served


def _run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["slo", "dashboards", *arguments, "--url", url])


def test_all_of_them_are_written_and_lead_to_the_console(url: str, tmp_path: Path) -> None:
    answer = _run(url, "--out", str(tmp_path), "--console-url", "https://ph.example")
    assert answer.exit_code == 0, answer.output
    assert {path.name for path in tmp_path.iterdir()} == GENERAL | {OWN}
    assert str(tmp_path / OWN) in answer.output
    own = json.loads((tmp_path / OWN).read_text())
    assert "chat@1" in own["description"]
    urls = {link["title"]: link.get("url") for link in own["links"]}
    assert urls["Console"] == "https://ph.example/deployments/assistant"


def test_those_of_one_contract_are_made_alone(url: str, tmp_path: Path) -> None:
    assert _run(url, "chat", "--out", str(tmp_path)).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {OWN}


def test_a_contract_that_nobody_is_under_is_told_with_those_in_force(
    url: str, tmp_path: Path
) -> None:
    answer = _run(url, "chatt", "--out", str(tmp_path))
    assert answer.exit_code == ExitCode.NOT_FOUND
    assert "those in force are chat" in answer.output
    assert list(tmp_path.iterdir()) == []


def test_they_are_put_into_a_grafana(url: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(EDITOR + "\n")
    with grafana_stand_in() as grafana:
        answer = _run(url, "--push", grafana.url, "--token-file", str(token))
        assert answer.exit_code == 0, answer.output
        assert {f"{uid}.json" for uid in grafana.dashboards} == GENERAL | {OWN}
        assert f"{grafana.url}/d/pilothouse-slo-assistant" in answer.output
        assert EDITOR not in answer.output


def test_a_refusal_of_grafana_fails_with_the_remedy(url: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(VIEWER)
    with grafana_stand_in() as grafana:
        answer = _run(url, "--push", grafana.url, "--token-file", str(token))
    assert answer.exit_code == ExitCode.FAILED
    assert "role Editor" in answer.output


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--out", "a", "--push", "http://g"),
        ("--push", "http://g"),
        ("--out", "a", "--token-file", "t"),
        ("--out", "/no/such/folder"),
        ("--push", "http://g", "--token-file", "/no/such/file"),
    ],
)
def test_what_makes_no_sense_is_refused(url: str, arguments: tuple[str, ...]) -> None:
    assert _run(url, *arguments).exit_code == ExitCode.USAGE


def test_who_lacks_the_library_is_told_what_to_install(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in ("dashboards", "grafana_foundation_sdk"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grafana_foundation_sdk", None)
    answer = _run(url, "--out", str(tmp_path))
    assert answer.exit_code == ExitCode.FAILED
    assert "pip install 'pilothouse[dashboards]'" in answer.output
