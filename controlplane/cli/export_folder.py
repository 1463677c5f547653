"""The folder that `pilothouse export` writes and `pilothouse import` reads.

documents/Model/smollm2.yaml    the latest document of each name, as `apply` takes it
history.jsonl                   a line with the digest over all; then a line for each revision,
                                and for each row that says where deployments stand
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.cli.exit_codes import ExitCode
from controlplane.specs.yaml_writer import write_yaml
from controlplane.store.config_export import ConfigExport, ExportedRevision, ExportedRow
from controlplane.store.config_import import RefusedExportError, check_export

HISTORY = "history.jsonl"
DOCUMENTS = "documents"


class ExportFolderError(click.ClickException):
    """The folder cannot be written, or is no export; nothing was changed."""

    exit_code = ExitCode.USAGE


def write_export(folder: Path, export: ConfigExport) -> int:
    """Returns how many documents there are. Raises ExportFolderError, also for a folder that holds
    anything: what was left of another export would be taken for part of this one."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ExportFolderError(f"{folder} is not empty: name a folder that is not there yet")
        latest = {(each.kind, each.name): each for each in export.revisions}
        for each in latest.values():
            path = folder / DOCUMENTS / each.kind / f"{each.name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write_yaml(each.document), encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        # Last: a folder without it is no whole export.
        (folder / HISTORY).write_text("".join(_lines(export)), encoding="utf-8")
    except OSError as error:
        raise ExportFolderError(f"cannot write {folder}: {error.strerror}") from error
    return len(latest)


def read_export(folder: Path) -> ConfigExport:
    """Raises ExportFolderError for what is missing, or is not as it was written."""
    path = folder / HISTORY
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ExportFolderError(
            f"cannot read {path} ({error}): name a folder that `pilothouse export` wrote"
        ) from error
    head, revisions, rows = _read_lines(path, lines)
    try:
        export = msgspec.convert({**head, "revisions": revisions, "rows": rows}, type=ConfigExport)
        check_export(export)
    except (msgspec.ValidationError, RefusedExportError) as error:
        raise ExportFolderError(f"{path}: {error}") from error
    return export


def _lines(export: ConfigExport) -> Iterator[str]:
    head = {"format": export.format, "version": export.version, "digest": export.digest}
    yield _line(head)
    for revision in export.revisions:
        yield _line({"revision": msgspec.to_builtins(revision)})
    for row in export.rows:
        yield _line({"row": msgspec.to_builtins(row)})


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"


def _read_lines(
    path: Path, lines: list[str]
) -> tuple[dict[str, Any], list[ExportedRevision], list[ExportedRow]]:
    head: dict[str, Any] = {}
    revisions: list[ExportedRevision] = []
    rows: list[ExportedRow] = []
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if number == 1 and isinstance(value, dict) and "format" in value:
                head = value
            elif isinstance(value, dict) and list(value) == ["revision"]:
                revisions.append(msgspec.convert(value["revision"], ExportedRevision))
            elif isinstance(value, dict) and list(value) == ["row"]:
                rows.append(msgspec.convert(value["row"], ExportedRow))
            else:
                raise ValueError("neither the head, nor a revision, nor a row")
        except (ValueError, msgspec.ValidationError) as error:
            raise ExportFolderError(f"{path}:{number}: {error}; export again") from error
    return head, revisions, rows
