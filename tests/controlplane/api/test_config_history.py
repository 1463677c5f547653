"""Over HTTP: what each revision changed, what two of them differ in, and who uses a document."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.config_documents import DESIGN_POLICY, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfigServer]:
    with serve_config(tmp_path) as server:
        apply(server, *SERVICE, author="ann", reason="first light")
        apply(server, DESIGN_POLICY.replace("max_queue: 64", "max_queue: 32"), author="ben")
        yield server


def apply(server: ConfigServer, *texts: str, author: str, reason: str = "") -> None:
    files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]
    body = {"files": files, "author": author, "reason": reason}
    assert server.http.post("/api/v1/apply", json=body).status_code == 200


def get(server: ConfigServer, path: str, status: int = 200) -> Any:
    response = server.http.get(f"/api/v1/config/{path}")
    assert response.status_code == status, response.text
    return response.json()


def test_the_difference_defaults_to_the_last_change(server: ConfigServer) -> None:
    diff = get(server, "admissionpolicy/chat/diff")
    assert (diff["from_revision"], diff["to_revision"]) == ("chat@1", "chat@2")
    [change] = diff["changes"]
    assert change["path"] == "classes[interactive].max_queue"
    assert (change["before"], change["after"]) == (64, 32)


def test_going_back_is_the_difference_the_other_way(server: ConfigServer) -> None:
    [change] = get(server, "admissionpolicy/chat/diff?from=2&to=1")["changes"]
    assert (change["before_text"], change["after_text"]) == ("32", "64")


def test_the_first_revision_added_everything(server: ConfigServer) -> None:
    diff = get(server, "admissionpolicy/chat/diff?to=1")
    assert diff["from_revision"] is None
    assert {change["kind"] for change in diff["changes"]} == {"added"}


def test_the_history_says_who_changed_what_and_who_uses_it(server: ConfigServer) -> None:
    history = get(server, "AdmissionPolicy/chat/history")
    assert [(r["revision"], r["author"]) for r in history["revisions"]] == [
        ("chat@2", "ben"),
        ("chat@1", "ann"),
    ]
    assert len(history["revisions"][0]["changes"]) == 1
    assert history["used_by"] == [{"deployment": "chat", "revision": "chat@2", "is_pinned": False}]


def test_an_unknown_document_or_revision_is_a_404_that_names_it(server: ConfigServer) -> None:
    assert "there is no Model nobody" in get(server, "model/nobody/history", 404)["detail"]
    detail = get(server, "admissionpolicy/chat/diff?from=9", 404)["detail"]
    assert "chat@9" in detail
    assert "Kinds:" in get(server, "nonsense/chat/diff", 404)["detail"]
    assert get(server, "admissionpolicy/chat/diff?from=-1", 422)["detail"]
