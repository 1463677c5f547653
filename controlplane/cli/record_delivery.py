"""Records on their way out of the command line: into a file, or to a control plane in batches."""

from pathlib import Path
from types import TracebackType
from typing import IO

import click

from controlplane.cli.client import post_bytes
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.output_file import check_folder
from dataplane.record import RequestRecord, encode_record

_MAX_BATCH = 200
_MAX_BATCH_BYTES = 2 * 2**20


class RecordFileError(click.ClickException):
    """A file that cannot be written."""

    exit_code = ExitCode.USAGE


class RecordFile:
    """JSON lines, one record each. An existing file is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.num_records = 0
        check_folder(path)
        try:
            self._file: IO[bytes] = path.open("wb")
        except OSError as error:
            raise self._failure(error) from error

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._file.close()
        except OSError as failed:  # what was buffered found no room
            if error is None:
                raise self._failure(failed) from failed

    def take(self, record: RequestRecord) -> None:
        """Write one more. Raises RecordFileError."""
        try:
            self._file.write(encode_record(record) + b"\n")
        except OSError as error:
            raise self._failure(error) from error
        self.num_records += 1

    def _failure(self, error: OSError) -> RecordFileError:
        return RecordFileError(f"cannot write {self._path}: {error.strerror}")


class RecordDelivery:
    """Delivers records as their gateways would: in batches, idempotent by gateway and sequence
    number, so that the same ones may be sent again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lines: dict[str, list[bytes]] = {}
        self._num_bytes: dict[str, int] = {}
        self.num_stored = 0
        self.num_duplicates = 0

    def take(self, record: RequestRecord) -> None:
        """Keep one more, and send a batch when it is full. Raises a CallError."""
        gateway_id, line = record.gateway_id, encode_record(record)
        lines = self._lines.setdefault(gateway_id, [])
        if lines and self._num_bytes[gateway_id] + len(line) > _MAX_BATCH_BYTES:
            self._send(gateway_id)
        lines.append(line)
        self._num_bytes[gateway_id] = self._num_bytes.get(gateway_id, 0) + len(line)
        if len(lines) >= _MAX_BATCH:
            self._send(gateway_id)

    def close(self) -> None:
        """Send what is left. Raises a CallError."""
        for gateway_id in list(self._lines):
            self._send(gateway_id)

    def _send(self, gateway_id: str) -> None:
        lines = self._lines[gateway_id]
        if not lines:
            return
        body = b'{"gateway_id":"%s","num_lost":0,"records":[%s]}' % (
            gateway_id.encode(),
            b",".join(lines),
        )
        answer = post_bytes(self._url, "/api/v1/records", body)
        self.num_stored += int(answer.get("stored", 0))
        self.num_duplicates += int(answer.get("duplicates", 0))
        lines.clear()
        self._num_bytes[gateway_id] = 0
