"""A backup holds everything, restores anywhere, and says what is wrong with it."""

import gzip
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, text

from controlplane.store.archive import Archive, ArchiveError, check_archive
from controlplane.store.backup import write_backup
from controlplane.store.connection import DatabaseKind, create_database_engine, sqlite_url
from controlplane.store.database import Database, SchemaError, SchemaState, inspect_schema
from controlplane.store.integrity import read_config_digest
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.replicas import add_replica
from controlplane.store.restore import restore_backup
from controlplane.store.revisions import apply_documents
from controlplane.store.schema import newest_version
from controlplane.store.stored_tables import read_tables
from controlplane.store.tables import ReplicaTransitionRow
from controlplane.store.upgrade import migrate, upgrade_database
from dataplane.engine import ReplicaSpec
from ops.sample_requests import traffic
from tests.controlplane.config_documents import SERVICE, documents
from tests.controlplane.store.full_tables import fill_every_table, filled_columns
from tests.databases import Databases, PostgresqlDatabases, SqliteDatabases
from tests.postgresql import Cluster

NOW_NS = 1_790_000_000 * 10**9


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Databases]:
    """Where a backup is restored: the new machine."""
    if request.param == "sqlite":
        (tmp_path / "new").mkdir()
        yield SqliteDatabases(tmp_path / "new")
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    made = PostgresqlDatabases(cluster)
    yield made
    made.drop()


def nothing(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""


def fill(databases: Databases) -> None:
    """Config with a history, a replica, and requests of every kind."""
    with closing(databases.open(DatabaseKind.CONFIG)) as config:
        for text_ in (SERVICE[0], SERVICE[0].replace("smollm2.gguf", "größer 🦙.gguf")):
            apply(config, text_, *SERVICE[1:])
        add_one_replica(config)
    with closing(databases.open(DatabaseKind.REQUESTS)) as requests, requests.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=3, records=tuple(traffic(60, NOW_NS)))
        store_batch(session, batch, Random(1), ReservoirSizes())


def apply(config: Database, *texts: str) -> None:
    with config.session() as session:
        apply_documents(session, documents(*texts), author="ann", reason="why: \u2028 'so' \\")


def add_one_replica(config: Database) -> None:
    with config.session() as session:
        spec = ReplicaSpec(
            replica_id="chat-1",
            deployment="chat",
            engine="paged",
            model_name="smollm2",
            model_revision="smollm2@1",
            engine_config_revision="attached@1",
            artifact="/models/größer 🦙.gguf",
            settings={},
        )
        add_replica(
            session, spec, spec_digest="d", launcher="local", reason="wanted", now_unix_ns=NOW_NS
        )


def everything(urls: dict[DatabaseKind, str]) -> dict[str, list[Any]]:
    """Every row of every table."""
    found = {}
    for kind, url in urls.items():
        engine = create_database_engine(url)
        with engine.connect() as connection:
            for table in read_tables(connection, kind):
                rows = sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
                found[f"{kind}/{table.name}"] = rows
        engine.dispose()
    return found


def digest_in(url: str) -> str:
    engine = create_database_engine(url)
    with engine.connect() as connection:
        digest = read_config_digest(connection).digest
    engine.dispose()
    return digest


def saved(databases: Databases, path: Path) -> Archive:
    write_backup(path, databases.urls(), nothing)
    return check_archive(path)


def test_a_backup_restores_everything_into_either_kind_of_server(
    databases: Databases, target: Databases, tmp_path: Path
) -> None:
    fill(databases)
    before = everything(databases.urls())

    digest = restore_backup(saved(databases, tmp_path / "b.tar.gz"), target.urls(), nothing)

    assert everything(target.urls()) == before
    assert sum(map(len, before.values())) > 100
    assert digest is not None
    assert digest.digest == digest_in(databases.url(DatabaseKind.CONFIG))
    assert digest.digest == digest_in(target.url(DatabaseKind.CONFIG))


def test_every_column_comes_back_as_it_was_with_a_value_and_without(
    databases: Databases, target: Databases, tmp_path: Path
) -> None:
    fill_every_table(databases)
    filled = filled_columns(databases)
    before = everything(databases.urls())

    restore_backup(saved(databases, tmp_path / "b.tar.gz"), target.urls(), nothing)

    assert everything(target.urls()) == before
    assert "span_reports.judgement" in filled
    assert [name for name, counts in filled.items() if 0 in counts] == []


def test_what_was_restored_goes_on_where_it_was(
    databases: Databases, target: Databases, tmp_path: Path
) -> None:
    fill(databases)
    restore_backup(saved(databases, tmp_path / "b.tar.gz"), target.urls(), nothing)

    with closing(target.open(DatabaseKind.CONFIG)) as config:
        apply(config, SERVICE[0].replace("smollm2.gguf", "third.gguf"))
        with config.session() as session:
            row = {"replica_id": "chat-1", "state": "ready", "reason": "", "at_unix_ns": 1}
            session.execute(insert(ReplicaTransitionRow), [row])


def test_config_alone_is_saved_and_restored_without_request_data(
    databases: Databases, target: Databases, tmp_path: Path
) -> None:
    fill(databases)
    config = {DatabaseKind.CONFIG: databases.url(DatabaseKind.CONFIG)}
    write_backup(tmp_path / "b.tar.gz", config, nothing)
    archive = check_archive(tmp_path / "b.tar.gz")

    with pytest.raises(ArchiveError, match="holds no requests data"):
        restore_backup(archive, target.urls(), nothing)
    restore_backup(archive, {DatabaseKind.CONFIG: target.url(DatabaseKind.CONFIG)}, nothing)

    assert digest_in(target.url(DatabaseKind.CONFIG)) == digest_in(config[DatabaseKind.CONFIG])


def test_a_backup_is_one_moment_while_others_write(databases: Databases, tmp_path: Path) -> None:
    fill(databases)
    stop = threading.Event()

    def write() -> None:
        with closing(databases.open(DatabaseKind.CONFIG)) as config:
            number = 0
            while not stop.is_set():
                number += 1
                apply(config, SERVICE[0].replace("smollm2.gguf", f"{number}.gguf"))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        archive = saved(databases, tmp_path / "b.tar.gz")
    finally:
        stop.set()
        thread.join()

    rows = dict(archive.rows(DatabaseKind.CONFIG))
    assert len(rows["revisions"]) == len(archive.manifest.revisions)
    referred = {row[3] for row in rows["deployment_changes"]}
    assert referred <= {row[0] for row in rows["revisions"]}


def test_a_backup_belongs_to_its_owner_alone(databases: Databases, tmp_path: Path) -> None:
    fill(databases)
    saved(databases, tmp_path / "b.tar.gz")

    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600


def test_a_backup_replaces_no_file_and_leaves_no_half_of_one(
    databases: Databases, tmp_path: Path
) -> None:
    fill(databases)
    there = tmp_path / "b.tar.gz"
    there.write_text("precious")
    with pytest.raises(ArchiveError, match="exists already"):
        write_backup(there, databases.urls(), nothing)
    assert there.read_text() == "precious"

    def fail(_what: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    out.mkdir()
    with suppress(KeyboardInterrupt):
        write_backup(out / "c.tar.gz", databases.urls(), fail)
    assert list(out.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(databases: Databases, tmp_path: Path) -> None:
    fill(databases)
    with pytest.raises(ArchiveError, match=r"no/b.tar.gz cannot be written: No such file"):
        write_backup(tmp_path / "no" / "b.tar.gz", databases.urls(), nothing)


def test_a_database_that_is_not_empty_is_left_as_it_is(
    databases: Databases, tmp_path: Path
) -> None:
    fill(databases)
    archive = saved(databases, tmp_path / "b.tar.gz")
    before = everything(databases.urls())

    with pytest.raises(ArchiveError, match=r"is not empty \(there are rows in"):
        restore_backup(archive, databases.urls(), nothing)

    assert everything(databases.urls()) == before


def cut_off(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_its_end(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data)[:-20_000])


def with_one_byte_changed(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data).replace(b"/models/smollm2", b"/models/smollm3"))


def no_archive(_data: bytes) -> bytes:
    return b"my diary, page 1\n" * 100


def another_archive(_data: bytes) -> bytes:
    return rewritten({"readme.txt": b"hello"})


def empty(_data: bytes) -> bytes:
    return b""


def rewritten(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def with_header(data: bytes, **changes: Any) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = {each.name: tar.extractfile(each) for each in tar}
        contents = {name: file.read() for name, file in members.items() if file is not None}
    header = json.loads(contents["header.json"])
    contents["header.json"] = json.dumps({**header, **changes}).encode()
    return rewritten(contents)


def of_a_newer_format(data: bytes) -> bytes:
    return with_header(data, format=99, surprise=True)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut_off, "cannot be read"),
        (without_its_end, "manifest.json|cannot be read"),
        (with_one_byte_changed, r"is damaged: config/audit_events-00001.jsonl is not what"),
        (no_archive, "no backup of Pilothouse"),
        (another_archive, "no backup of Pilothouse"),
        (empty, "cannot be read|no backup"),
        (of_a_newer_format, "has format 99, this Pilothouse reads 1: a newer one wrote it"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused_and_says_why(
    tmp_path: Path, spoil: Callable[[bytes], bytes], said: str
) -> None:
    databases = SqliteDatabases(tmp_path)
    fill(databases)
    path = tmp_path / "b.tar.gz"
    write_backup(path, databases.urls(), nothing)
    path.write_bytes(spoil(path.read_bytes()))

    with pytest.raises(ArchiveError, match=said):
        check_archive(path)


def test_a_backup_of_a_schema_that_is_not_known_is_refused(
    databases: Databases, target: Databases, tmp_path: Path
) -> None:
    fill(databases)
    archive = saved(databases, tmp_path / "b.tar.gz")
    archive.header.databases[DatabaseKind.CONFIG] = type(
        archive.header.databases[DatabaseKind.CONFIG]
    )(schema="9999", columns={})

    with pytest.raises(ArchiveError, match="has config schema 9999, which this Pilothouse does"):
        restore_backup(archive, target.urls(), nothing)


def test_a_backup_from_before_an_upgrade_is_restored_and_upgraded(
    databases: Databases, target: Databases, tmp_path: Path
) -> None:
    old = {kind: databases.empty_url() for kind in DatabaseKind}
    for kind, url in old.items():
        upgrade_database(url, kind)
        migrate(url, kind, "0001")
    engine = create_database_engine(old[DatabaseKind.REQUESTS])
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO gateway_losses VALUES ('g', 7)"))
    engine.dispose()
    write_backup(tmp_path / "b.tar.gz", old, nothing)

    restore_backup(check_archive(tmp_path / "b.tar.gz"), target.urls(), nothing)

    assert everything(target.urls())["requests/gateway_losses"] == [("g", 7)]
    for kind, url in target.urls().items():
        assert inspect_schema(url, kind).found == newest_version(kind)


def damage(connection: Connection) -> None:
    connection.execute(text("UPDATE revisions SET digest = 'made-up' WHERE id = 1"))


def test_config_that_is_damaged_is_not_saved_as_if_it_were_whole(
    databases: Databases, tmp_path: Path
) -> None:
    fill(databases)
    engine = create_database_engine(databases.url(DatabaseKind.CONFIG))
    with engine.begin() as connection:
        damage(connection)
    engine.dispose()

    with pytest.raises(ArchiveError, match="is not the one that was stored"):
        write_backup(tmp_path / "b.tar.gz", databases.urls(), nothing)


def test_what_does_not_exist_cannot_be_saved(tmp_path: Path) -> None:
    urls = {kind: sqlite_url(tmp_path / f"{kind}.db") for kind in DatabaseKind}
    with pytest.raises(SchemaError) as raised:
        write_backup(tmp_path / "b.tar.gz", urls, nothing)

    assert raised.value.report.state is SchemaState.ABSENT
