"""What the state directory holds; it can be read while nothing runs."""

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from controlplane.access.gateway_keys import key_path
from controlplane.access.own_keys import secrets_dir
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import open_database
from controlplane.store.database_url import masked
from controlplane.store.revision import Revision
from controlplane.store.revisions import list_latest
from controlplane.store.schema import describe_schema, inspect_schema
from controlplane.support.archive import Archive
from controlplane.support.log_lines import clean_log_line
from controlplane.support.scrub import Scrubber
from dataplane.access import read_key_file
from dataplane.processes import ProcessDirectory, ProcessRecord, is_alive

Gather = Callable[[Archive], None]
_MAX_LOGS = 24
_MAX_LOG_BYTES = 2**20
_MAX_LOG_LINES = 2000


def add_processes(state_dir: Path) -> Gather:
    """Every process on record: what it is, how it was started, whether it runs."""

    def gather(archive: Archive) -> None:
        _require(state_dir)
        archive.add_json("state/processes.json", [_process(each) for each in _records(state_dir)])

    return gather


def add_schema(urls: Mapping[DatabaseKind, str]) -> Gather:
    """How both databases stand to what this version knows. Changes nothing."""

    def gather(archive: Archive) -> None:
        said = {}
        for kind, url in urls.items():
            said[kind.value] = {
                "url": masked(url),
                "schema": describe_schema(inspect_schema(url, kind)),
            }
        archive.add_json("state/schema.json", said)

    return gather


def add_documents(config_url: str) -> Gather:
    """The latest revision of every document, from the database itself."""

    def gather(archive: Archive) -> None:
        database = open_database(config_url, DatabaseKind.CONFIG)
        with closing(database), database.reading() as session:
            found = [_document(each) for each in list_latest(session, None)]
        archive.add_json("state/documents.json", found)

    return gather


def add_files(state_dir: Path) -> Gather:
    """Names and sizes of everything in the directory: what fills the disk."""

    def gather(archive: Archive) -> None:
        _require(state_dir)
        sizes = {}
        for folder, _, names in os.walk(state_dir):
            for name in names:
                path = Path(folder) / name
                if path.is_file() and not path.is_symlink():
                    sizes[str(path.relative_to(state_dir))] = path.stat().st_size
        archive.add_json("state/files.json", dict(sorted(sizes.items())))

    return gather


def add_logs(state_dir: Path) -> Gather:
    """The ends of the newest logs, without secrets and without content."""

    def gather(archive: Archive) -> None:
        _require(state_dir)
        logs = [path for path in (state_dir / "logs").glob("*.log*") if path.is_file()]
        logs.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        scrubber = Scrubber()  # the archive's own comes after it, with the known values
        for path in logs[:_MAX_LOGS]:
            lines = [clean_log_line(line, scrubber) for line in _tail(path)]
            text = "".join(f"{line}\n" for line in lines)
            archive.add_text(f"logs/{path.name}", text, is_tail=True)
        for path in logs[_MAX_LOGS:]:
            archive.note_missing(f"logs/{path.name}", f"only the newest {_MAX_LOGS} are taken")

    return gather


def gateway_addresses(state_dir: Path) -> dict[str, str]:
    """Base URLs of the gateways on record, by name: the place's, whichever process has it."""
    found = {}
    for record in _records(state_dir):
        if record.role == "gateway":
            host, port = _option(record, "--host"), _option(record, "--port")
            if host and port:
                found[_option(record, "--name") or record.name] = f"http://{host}:{port}"
    return found


def gateway_headers(state_dir: Path, name: str) -> dict[str, str]:
    """What the control plane of this state directory shows the gateway called so.

    Empty where it has no key for it, as without authentication, and where it cannot be read.
    """
    try:
        key = read_key_file(key_path(secrets_dir(state_dir), name))
    except (OSError, ValueError):
        return {}
    return {"authorization": f"Bearer {key}"}


def replica_metrics_addresses(state_dir: Path) -> dict[str, str]:
    """host:port of the replicas on record that have told it, by id."""
    found = {}
    for record in _records(state_dir):
        path = state_dir / "replicas" / record.name / "status.json"
        if record.role == "replica" and path.is_file():
            address = msgspec.json.decode(path.read_bytes()).get("metrics_address")
            if address:
                found[record.name] = address
    return found


def _document(revision: Revision) -> dict[str, object]:
    return {
        "revision": f"{revision.kind.value} {revision.label}",
        "digest": revision.digest,
        "author": revision.author,
        "reason": revision.reason,
        "created_at_unix_ns": revision.created_at_unix_ns,
        "document": revision.document,
    }


def _process(record: ProcessRecord) -> dict[str, object]:
    alive = is_alive(record)
    return {
        **msgspec.to_builtins(record),
        "is_alive": alive,
        "memory": _memory(record.pid) if alive else None,
    }


def _memory(pid: int) -> str | None:
    """Resident memory as the kernel writes it; None when the process has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((line.split(":")[1].strip() for line in lines if line.startswith("VmRSS")), None)


def _records(state_dir: Path) -> list[ProcessRecord]:
    return ProcessDirectory(state_dir).records() if state_dir.is_dir() else []


def _option(record: ProcessRecord, name: str) -> str | None:
    argv = record.argv
    return argv[argv.index(name) + 1] if name in argv[:-1] else None


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MAX_LOG_BYTES))
        data = file.read()
    # Of bytes: at CR and LF alone. JSON holds U+2028 and its like as they are.
    lines = [line.decode("utf-8", "replace") for line in data.splitlines()]
    if size > _MAX_LOG_BYTES:
        lines = lines[1:]  # its beginning is missing
    return list(deque(lines, _MAX_LOG_LINES))


def _require(state_dir: Path) -> None:
    if not state_dir.is_dir():
        raise FileNotFoundError(f"there is no folder {state_dir}; name it with --state-dir")
