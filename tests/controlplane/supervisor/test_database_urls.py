"""serve tells the control plane where its databases are, and shows nobody the password."""

from contextlib import closing
from pathlib import Path

import pytest

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import open_database
from controlplane.store.deployments import list_deployments
from controlplane.supervisor.child import GivenUpError
from controlplane.supervisor.first_start import prepare
from controlplane.supervisor.settings import ServeSettings, control_plane_spec, gateway_spec
from tests.databases import PostgresqlDatabases


def settings(folder: Path, **more: str | None) -> ServeSettings:
    return ServeSettings(
        state_dir=folder,
        port=8700,
        gateway_port=8701,
        config_dir=None,
        drain_seconds=1,
        config_url=more.get("config_url"),
        requests_url=more.get("requests_url"),
    )


@pytest.fixture
def empty(postgresql: PostgresqlDatabases) -> str:
    return postgresql.empty_url()


def test_the_first_start_creates_the_databases_where_the_urls_say(
    tmp_path: Path, empty: str
) -> None:
    said: list[str] = []
    for _ in range(2):
        prepare(settings(tmp_path, config_url=empty, requests_url=empty), said.append)

    assert len([line for line in said if line.startswith("applied")]) == 1
    assert list(tmp_path.glob("*.db")) == []
    open_database(empty, DatabaseKind.REQUESTS).close()
    config = open_database(empty, DatabaseKind.CONFIG)
    with closing(config), config.reading() as session:
        assert len(list_deployments(session)) == 1


def test_a_url_reaches_the_control_plane_by_environment_alone(tmp_path: Path) -> None:
    url = "postgresql://ann:geheim@db/pilothouse"
    spec = control_plane_spec(settings(tmp_path, config_url=url))

    assert "geheim" not in " ".join(spec.argv)
    assert spec.environment == {"PILOTHOUSE_CONFIG_URL": url}
    assert gateway_spec(settings(tmp_path, config_url=url)).environment == {}


def test_a_control_plane_of_another_database_is_not_adopted(tmp_path: Path) -> None:
    digests = {
        control_plane_spec(settings(tmp_path, config_url=url)).digest
        for url in (None, "postgresql://db/one", "postgresql://db/two")
    }
    assert len(digests) == 3


def test_a_server_that_cannot_be_reached_ends_the_start_and_says_so(tmp_path: Path) -> None:
    url = "postgresql://ann:geheim@127.0.0.1:1/pilothouse"
    with pytest.raises(GivenUpError, match="cannot be reached") as raised:
        prepare(settings(tmp_path, config_url=url), print)
    assert "geheim" not in str(raised.value)
