"""The file of a bundle: a tar.gz that only its owner can read, bounded in size."""

import io
import os
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from controlplane.support.scrub import Scrubber

MAX_FILE_BYTES = 4 * 2**20
MAX_BUNDLE_BYTES = 48 * 2**20
"""Before compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the manifest."""

    file: str
    num_bytes: int
    problem: str | None = None
    """Why it is missing or not whole."""


class Archive:
    """Files go in scrubbed; what does not fit, or cannot be had, is noted and not fatal.

    Nothing is left behind when its block raises.
    """

    def __init__(
        self,
        path: Path,
        scrubber: Scrubber,
        modified_at_unix: int,
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        max_bundle_bytes: int = MAX_BUNDLE_BYTES,
    ) -> None:
        """Raises FileExistsError and other OSErrors."""
        self._path = path
        self._scrubber = scrubber
        self._modified_at_unix = modified_at_unix
        self._max_file_bytes = max_file_bytes
        self._max_bundle_bytes = max_bundle_bytes
        self._num_bytes = 0
        self.entries: list[Entry] = []
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115

    def add_text(self, name: str, text: str, *, is_tail: bool = False) -> None:
        """Put a text in; of one that is too long the beginning, or with `is_tail` the end."""
        data = self._scrubber.text(text).encode("utf-8", "replace")
        room = min(self._max_file_bytes, self._max_bundle_bytes - self._num_bytes)
        problem = None
        if len(data) > room:
            part = "end" if is_tail else "beginning"
            problem = f"{len(data)} bytes; only the {part} is here, the bound is {room}"
            data = (data[-room:] if is_tail else data[:room]) if room > 0 else b""
        self._write(name, data)
        self.entries.append(Entry(file=name, num_bytes=len(data), problem=problem))

    def add_json(self, name: str, value: Any) -> None:
        """Put data in, with what stands under names of secrets masked."""
        data = self._scrubber.data(msgspec.to_builtins(value))
        text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
        self.add_text(name, text + "\n")

    def note_missing(self, name: str, why: str) -> None:
        """Say that a file is not here, and why."""
        problem = self._scrubber.text(why)
        self.entries.append(Entry(file=name, num_bytes=0, problem=problem))

    def _write(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), 0o600, self._modified_at_unix
        self._tar.addfile(info, io.BytesIO(data))
        self._num_bytes += len(data)

    def _write_manifest(self) -> None:
        manifest = {"files": [asdict(entry) for entry in self.entries]}
        self._write("manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=2))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._write_manifest()
            self._tar.close()
        finally:
            self._file.close()
            if error is not None:
                self._path.unlink(missing_ok=True)
