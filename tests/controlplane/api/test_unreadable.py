"""A stored document that cannot be read is named, and takes no page down with it."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from ops.seeded_console import close_app, create_app, seed
from tests.databases import SqliteDatabases
from tests.dataplane.golden_request import golden_record

NOW_NS = golden_record().arrived_at_unix_ns


@pytest.mark.parametrize(
    ("kind", "held"),
    [("Deployment", ["chat"]), ("AdmissionPolicy", ["chat", "summarize"])],
)
def test_a_deployment_that_cannot_be_read_is_a_trouble_and_no_failure(
    tmp_path: Path, kind: str, held: list[str]
) -> None:
    app = create_app(tmp_path, SqliteDatabases(tmp_path).urls())
    seed(app, NOW_NS, num_requests=1)
    client = TestClient(app, base_url="http://127.0.0.1")
    before = [each["name"] for each in client.get("/api/v1/overview").json()["deployments"]]
    with app.state.config_db.session() as session:
        damage = text(
            "UPDATE revisions SET document = :d, digest = :k WHERE kind = :k AND name = 'chat'"
        )
        session.execute(damage, {"d": '{"spec": {"unknown": 1}}', "k": kind})

    overview = client.get("/api/v1/overview").json()

    assert before == ["chat", "summarize"]
    assert [each["name"] for each in overview["deployments"]] == sorted({*before} - {*held})
    troubles = [each for each in overview["troubles"] if "cannot be read" in each["what"]]
    assert [each["deployment"] for each in troubles] == held
    assert {each["severity"] for each in troubles} == {"ticket"}
    for path in ("/", "/deployments", "/api/v1/deployments", "/api/v1/config/Deployment"):
        assert client.get(path).status_code == 200, path
    close_app(app)
