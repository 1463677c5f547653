"""Config over HTTP: applied whole or refused whole."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.store.connection import DatabaseKind
from tests.controlplane.config_documents import DEPLOYMENT, DESIGN_CONTRACT, MODEL, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config
from tests.databases import Databases


@pytest.fixture
def server(databases: Databases, tmp_path: Path) -> Iterator[ConfigServer]:
    with serve_config(tmp_path, databases.open(DatabaseKind.CONFIG)) as server:
        yield server


def post(server: ConfigServer, *texts: str, **more: Any) -> httpx.Response:
    files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]
    return server.http.post("/api/v1/apply", json={"files": files, **more})


def get(server: ConfigServer, path: str, **parameters: int) -> Any:
    response = server.http.get(f"/api/v1{path}", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def test_what_is_applied_is_answered_document_by_document(server: ConfigServer) -> None:
    response = post(server, *SERVICE, author="ann", reason="first light")

    assert response.status_code == 200
    applied = response.json()["applied"]
    assert [(a["kind"], a["revision"], a["change"]) for a in applied] == [
        ("Model", "smollm2@1", "created"),
        ("EngineConfig", "attached@1", "created"),
        ("SLOContract", "chat@1", "created"),
        ("AdmissionPolicy", "chat@1", "created"),
        ("Deployment", "chat@1", "created"),
    ]
    assert response.json()["warnings"] == []


def test_what_can_have_no_effect_is_answered_with_its_place(server: ConfigServer) -> None:
    loose = [text.replace("at_most: 40ms, for: 95%", "at_most: 40ms, for: 90%") for text in SERVICE]
    response = post(server, *loose, author="ann", reason="first light")

    keys = [warning["key"] for warning in response.json()["warnings"]]
    assert keys == ["spec.classes.interactive.objectives[1].for"]


def test_a_budget_longer_than_counts_are_kept_is_refused_with_the_remedy(
    server: ConfigServer,
) -> None:
    response = post(server, DESIGN_CONTRACT.replace("window: 30d", "window: 401d"))

    assert response.status_code == 422
    [problem] = response.json()["problems"]
    assert problem["key"] == "spec.window"
    assert "400 days" in problem["message"]
    assert "--keep-count-days" in problem["message"]
    kept = post(server, DESIGN_CONTRACT.replace("window: 30d", "window: 400d"))
    assert kept.json()["applied"][0]["revision"] == "chat@1"


def test_a_budget_of_a_few_minutes_is_refused(server: ConfigServer) -> None:
    response = post(server, DESIGN_CONTRACT.replace("window: 30d", "window: 4m"))

    assert response.status_code == 422
    [problem] = response.json()["problems"]
    assert problem["key"] == "spec.window"
    assert "5m" in problem["message"]


def test_documents_are_read_and_refused_while_somebody_else_is_writing(
    server: ConfigServer, databases: Databases
) -> None:
    # A unit of work locks out every other writer from its beginning.
    with contextlib.closing(databases.open(DatabaseKind.CONFIG)) as other, other.session():
        response = post(server, MODEL.replace("path", "pth"))
    assert response.status_code == 422
    assert "did you mean path?" in response.json()["problems"][0]["message"]


def test_problems_of_every_file_refuse_all_of_them(server: ConfigServer) -> None:
    response = post(server, MODEL, MODEL.replace("path", "pth"), "a: [")

    assert response.status_code == 422
    problems = response.json()["problems"]
    assert [(p["file"], p["line"], p["column"]) for p in problems] == [
        ("f1.yaml", 4, 14),
        ("f2.yaml", 1, 5),
    ]
    assert "did you mean path?" in problems[0]["message"]
    assert get(server, "/config") == []
    assert server.announcements == []


def test_names_are_checked_against_what_was_applied_before(server: ConfigServer) -> None:
    assert post(server, DEPLOYMENT).status_code == 422
    assert post(server, *SERVICE[:-1]).status_code == 200
    assert post(server, DEPLOYMENT).status_code == 200


def test_settings_are_checked_by_the_engine_that_will_read_them(server: ConfigServer) -> None:
    text = "kind: EngineConfig\nmetadata: {name: e}\nspec: {engine: openai, settings: {modl: x}}\n"

    [problem] = post(server, text).json()["problems"]

    assert problem["key"] == "spec.settings.modl"


def test_a_dry_run_says_what_would_change_and_changes_nothing(server: ConfigServer) -> None:
    response = post(server, *SERVICE, dry_run=True)

    assert {a["change"] for a in response.json()["applied"]} == {"created"}
    assert get(server, "/config") == []
    assert server.announcements == []
    assert post(server, DEPLOYMENT, dry_run=True).status_code == 422


def test_a_change_is_announced_after_it_was_committed_and_no_change_is_not(
    server: ConfigServer,
) -> None:
    post(server, *SERVICE)
    post(server, *SERVICE)
    post(server, MODEL.replace("smollm2.gguf", "other.gguf"))

    assert server.announcements == [5, 6]


def test_documents_are_read_by_kind_name_and_number(server: ConfigServer) -> None:
    post(server, *SERVICE, author="ann", reason="why not")
    post(server, MODEL.replace("smollm2.gguf", "other.gguf"))

    assert len(get(server, "/config")) == 5
    [listed] = get(server, "/config/models")
    latest = get(server, "/config/model/smollm2")
    first = get(server, "/config/Model/smollm2", number=1)
    assert listed == latest
    assert (latest["revision"], first["revision"]) == ("smollm2@2", "smollm2@1")
    assert (first["author"], first["reason"]) == ("ann", "why not")
    assert first["document"]["spec"]["artifact"]["path"] == "/models/smollm2.gguf"
    history = get(server, "/config/Model/smollm2/revisions")
    assert [r["revision"] for r in history] == ["smollm2@2", "smollm2@1"]


def test_a_deployment_shows_its_exact_revisions_and_its_history(server: ConfigServer) -> None:
    post(server, *SERVICE)
    post(server, MODEL.replace("smollm2.gguf", "other.gguf"), author="bob")

    deployment = get(server, "/config/Deployment/chat")["deployment"]
    changes = get(server, "/deployments/chat/changes")

    assert deployment["desired"] == {
        "model": "smollm2@2",
        "engine_config": "attached@1",
        "policy": "chat@1",
        "contract": "chat@1",
    }
    assert (deployment["generation"], deployment["observed_generation"]) == (2, 0)
    assert [(c["generation"], c["author"]) for c in changes] == [(2, "bob"), (1, "unknown")]
    before = changes[0]["at_unix_ns"] - 1
    assert get(server, "/deployments/chat/changes", at_unix_ns=before) == [changes[1]]
    assert get(server, "/deployments/chat/changes", at_unix_ns=0) == []


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/config/Modl", "there is no kind 'Modl'; did you mean Model?"),
        ("/config/Model/nope", "there is no Model nope"),
        ("/config/Model/nope/revisions", "there is no Model nope"),
        ("/config/Model/nope?number=3", "there is no Model nope@3"),
        ("/deployments/nope/changes", "there is no Deployment nope"),
    ],
)
def test_what_does_not_exist_is_a_404_that_says_so(
    server: ConfigServer, path: str, detail: str
) -> None:
    response = server.http.get(f"/api/v1{path}")

    assert response.status_code == 404
    assert response.json()["detail"].startswith(detail)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"files": []},
        {"files": [{"name": "f"}]},
        {"files": [{"name": "f", "text": 5}]},
        {"files": [{"name": "f", "text": ""}], "dryrun": True},
        {"files": [{"name": "f", "text": ""}], "reason": "x" * 2000},
        {"files": [{"name": "f", "text": ""}] * 201},
    ],
)
def test_a_malformed_call_is_refused(server: ConfigServer, body: Any) -> None:
    assert server.http.post("/api/v1/apply", json=body).status_code == 422
