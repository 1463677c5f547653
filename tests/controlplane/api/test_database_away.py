"""A database server that is away: what callers are told, and what a terminal shows of it."""

from click.testing import CliRunner
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api.errors import add_error_handlers
from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.store.connection import DatabaseKind, create_bare_engine
from controlplane.store.database_url import masked
from tests.postgresql import Cluster

AWAY = "postgresql://ana:hunter2@127.0.0.1:1/pilothouse"


def test_an_outage_is_answered_in_one_line_with_what_to_do() -> None:
    app = FastAPI()
    add_error_handlers(app)

    @app.get("/rows")
    def get_rows() -> None:
        create_bare_engine(AWAY).connect()

    answer = TestClient(app).get("/rows")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    detail = answer.json()["detail"]
    assert "the database did not answer (connection" in detail
    assert "Try again; if it goes on, `pilothouse db check` says" in detail
    assert detail.isprintable()
    assert "hunter2" not in detail


def test_a_command_says_it_without_a_control_character() -> None:
    urls = ["--config-url", AWAY, "--requests-url", AWAY]
    result = CliRunner().invoke(main, ["db", "check", *urls])

    assert result.exit_code == ExitCode.UNREACHABLE
    assert "See that the server runs and takes connections" in result.output
    assert all(line.isprintable() for line in result.output.split("\n"))
    assert "\ufffd" not in result.output
    assert "hunter2" not in result.output


def test_an_empty_database_of_a_server_is_not_said_to_be_missing(cluster: Cluster) -> None:
    name = cluster.create("template0")
    try:
        url = cluster.url(name)
        result = CliRunner().invoke(
            main, ["db", "check", "--config-url", url, "--requests-url", url]
        )
    finally:
        cluster.drop(name)

    assert result.exit_code == ExitCode.UNUSABLE_STATE
    for kind in DatabaseKind:
        assert f"the {kind} database {masked(url)} holds no {kind} tables yet. " in result.output
    assert "exist" not in result.output
