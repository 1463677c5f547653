"""Our own processes find their keys again, and get new ones when something is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.access.own_keys import ensure_key
from controlplane.store.access_keys import find_key, revoke_key
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from dataplane.access import Role, key_id_of
from tests.databases import SqliteDatabases


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = SqliteDatabases(tmp_path).open(DatabaseKind.CONFIG)
    yield opened
    opened.close()


def is_known(database: Database, text: str) -> bool:
    with database.reading() as session:
        return find_key(session, key_id_of(text) or "") is not None


def test_a_key_is_made_once_and_only_its_owner_can_read_it(
    database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "secrets" / "g.key"

    first = ensure_key(database, path, "g", Role.GATEWAY)

    assert ensure_key(database, path, "g", Role.GATEWAY) == first
    assert path.read_text() == f"{first}\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lost_file_means_a_new_key_and_the_old_one_opens_nothing(
    database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "g.key"
    first = ensure_key(database, path, "g", Role.GATEWAY)
    path.unlink()

    second = ensure_key(database, path, "g", Role.GATEWAY)

    assert second != first
    assert not is_known(database, first)
    assert is_known(database, second)


def test_a_key_that_was_revoked_or_has_another_role_is_replaced(
    database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "g.key"
    first = ensure_key(database, path, "g", Role.GATEWAY)
    with database.session() as session:
        revoke_key(session, "g", actor="ana")

    second = ensure_key(database, path, "g", Role.GATEWAY)
    third = ensure_key(database, path, "g", Role.VIEWER)

    assert len({first, second, third}) == 3
    assert [is_known(database, key) for key in (first, second, third)] == [False, False, True]


def test_a_key_that_cannot_be_written_down_does_not_exist(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        ensure_key(database, tmp_path / "file" / "g.key", "g", Role.GATEWAY)

    good = ensure_key(database, tmp_path / "g.key", "g", Role.GATEWAY)
    assert is_known(database, good)
