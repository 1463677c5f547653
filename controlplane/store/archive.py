"""The file of a backup: a gzipped tar of JSON lines, the same whatever database it came from.

| member | holds |
| --- | --- |
| header.json | format, version of Pilothouse, instant, and each database's schema and columns |
| config/revisions-00001.jsonl, ... | at most 5,000 rows of one table, as arrays |
| manifest.json | last: rows of every table, SHA-256 of every member, digests of every revision |

A file without its manifest was cut off. Members are small, so that neither writing nor reading
needs room for more than one of them.
"""

import base64
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from controlplane.store.connection import DatabaseKind

FORMAT = 1
ROWS_PER_MEMBER = 5000
_HEADER = "header.json"
_MANIFEST = "manifest.json"
_COMPRESSION = 3


class ArchiveError(Exception):
    """A backup that cannot be written or used; says why. Nothing was restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedDatabase:
    """One of the databases in it."""

    schema: str
    """Its version."""
    columns: dict[str, list[str]]
    """By table, in the order of restoring: what is referred to comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a backup says of itself before its rows."""

    format: int
    version: str
    """Of the Pilothouse that wrote it."""
    created_at_unix_ns: int
    databases: dict[DatabaseKind, ArchivedDatabase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup says of itself after its rows."""

    num_rows: dict[str, int]
    """By database and table, like config/revisions."""
    digests: dict[str, str]
    """SHA-256 of every member before this one, in hex."""
    revisions: dict[str, str]
    """Digest of every revision, by kind and label, like Model/smollm2@1."""


@dataclass(slots=True)
class ArchiveWriter:
    """Writes one; made by `writing_archive`."""

    _tar: tarfile.TarFile
    _at_unix_ns: int
    _num_rows: dict[str, int] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)
    _num_members: dict[str, int] = field(default_factory=dict)

    def write_header(self, header: Header) -> None:
        """Comes first."""
        self._num_rows = {
            f"{kind}/{table}": 0
            for kind, each in header.databases.items()
            for table in each.columns
        }
        self._add(_HEADER, json.dumps(asdict(header), indent=1).encode())

    def write_rows(self, kind: DatabaseKind, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """At most ROWS_PER_MEMBER rows of one table; calls for it follow each other."""
        key = f"{kind}/{table}"
        number = self._num_members[key] = self._num_members.get(key, 0) + 1
        self._num_rows[key] += len(rows)
        lines = b"\n".join(_encode_row(row) for row in rows)
        self._add(f"{key}-{number:05}.jsonl", lines)

    def write_manifest(self, revisions: dict[str, str]) -> Manifest:
        """Comes last."""
        manifest = Manifest(num_rows=self._num_rows, digests=self._digests, revisions=revisions)
        self._add(_MANIFEST, json.dumps(asdict(manifest), indent=1).encode())
        return manifest

    def _add(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = len(data), self._at_unix_ns // 10**9, 0o600
        self._tar.addfile(member, io.BytesIO(data))
        self._digests[name] = hashlib.sha256(data).hexdigest()


@contextmanager
def writing_archive(path: Path, at_unix_ns: int) -> Iterator[ArchiveWriter]:
    """A new archive that stands at `path`, readable by its owner only, once the block has ended.

    Until then, and when the block raises, nothing is there. Raises OSError.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as tar:
                yield ArchiveWriter(tar, at_unix_ns)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A backup that was read once from end to end and is whole."""

    path: Path
    header: Header
    manifest: Manifest

    def num_rows(self, kinds: Iterable[DatabaseKind]) -> int:
        """Of all tables of these databases."""
        prefixes = tuple(f"{kind}/" for kind in kinds)
        counts = self.manifest.num_rows.items()
        return sum(number for name, number in counts if name.startswith(prefixes))

    def rows(self, kind: DatabaseKind) -> Iterator[tuple[str, list[list[Any]]]]:
        """Table and rows of every member of one database, in the order of restoring.

        Bytes stand there in base64.
        """
        for name, data in _members(self.path):
            if name.startswith(f"{kind}/"):
                table = name.removeprefix(f"{kind}/").rpartition("-")[0]
                yield table, [json.loads(line) for line in data.split(b"\n")]


def check_archive(path: Path) -> Archive:
    """Read a backup from end to end and compare it with its manifest.

    Raises ArchiveError when it is none, was cut off, was changed, or is of a newer format.
    """
    header: Header | None = None
    found: dict[str, str] = {}
    manifest: Manifest | None = None
    for name, data in _members(path):
        if name == _HEADER:
            header = _read_header(path, data)
        if name == _MANIFEST:
            manifest = _decode(path, data, Manifest)
        else:
            found[name] = hashlib.sha256(data).hexdigest()
    if header is None:
        raise ArchiveError(f"{path} is no backup of Pilothouse: it has no {_HEADER}")
    if manifest is None:
        raise ArchiveError(f"{path} was cut off: it has no {_MANIFEST}. Use another backup")
    changed = sorted(
        name
        for name in {*found, *manifest.digests}
        if found.get(name) != manifest.digests.get(name)
    )
    if changed:
        raise ArchiveError(
            f"{path} is damaged: {changed[0]} is not what its manifest says. Use another backup"
        )
    return Archive(path=path, header=header, manifest=manifest)


def _read_header(path: Path, data: bytes) -> Header:
    found = _decode(path, data, dict[str, Any]).get("format")
    if isinstance(found, int) and found > FORMAT:
        raise ArchiveError(
            f"{path} has format {found}, this Pilothouse reads {FORMAT}: a newer one wrote it. "
            f"Restore it with that version"
        )
    header: Header = _decode(path, data, Header)
    return header


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path, "r|gz") as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    yield member.name, file.read()
    except FileNotFoundError as error:
        raise ArchiveError(f"{path} does not exist") from error
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ArchiveError(
            f"{path} cannot be read: {error}. It is no backup of Pilothouse, or is damaged"
        ) from error


def _decode(path: Path, data: bytes, type_: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.MsgspecError as error:
        raise ArchiveError(f"{path} is damaged: {error}. Use another backup") from error


def _encode_row(row: Sequence[Any]) -> bytes:
    # Not msgspec, whose integers end at 64 bits: a document may hold any.
    return json.dumps(list(row), separators=(",", ":"), default=_base64).encode()


def _base64(cell: Any) -> str:
    if not isinstance(cell, bytes):
        raise TypeError(f"a {type(cell).__name__} has no form in a backup")
    return base64.b64encode(cell).decode()
